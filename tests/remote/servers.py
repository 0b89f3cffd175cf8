"""The servers that tests of URLs read from: nginx, moto's S3 and faulty_server.py, on loopback."""
import atexit
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
NGINX = shutil.which("nginx") or ("/usr/sbin/nginx" if os.path.exists("/usr/sbin/nginx") else None)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(port, process):
    until = time.monotonic() + 90  # moto's imports alone take seconds
    while time.monotonic() < until:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args}: ended with {process.returncode} before it listened")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"nothing listens at port {port}")


def stop(process):
    process.terminate()  # nginx ends its workers then
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()


def start(*command, **more):
    more.setdefault("stdout", subprocess.DEVNULL)
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, **more)
    atexit.register(stop, process)
    return process


def make_certificates(folder):
    """A CA and a server's certificate: ca.pem, server.pem, server.key."""
    def openssl(*args):
        subprocess.run(("openssl",) + args, cwd=folder, check=True, capture_output=True)
    key = ("-newkey", "rsa:2048", "-nodes")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=test CA")
    openssl("req", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=127.0.0.1")
    with open(os.path.join(folder, "names"), "w", encoding="ascii") as out:
        out.write("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-out", "server.pem", "-days", "2", "-extfile", "names")


def start_nginx(folder, files, log="off"):
    """Serves `files` at /, sends /moved/ on to it, and wants a password and a token at /private/. Returns the ports of http and https.
    `log` is a file that gets a line "PATH RANGE STATUS BYTES" for each request, or "off"."""
    make_certificates(folder)
    http, https = free_port(), free_port()
    with open(os.path.join(folder, "nginx.conf"), "w", encoding="utf-8") as out:
        out.write(f"""
daemon off; pid {folder}/pid; error_log {folder}/error.log; worker_processes 1;
{'user root;' if os.geteuid() == 0 else ''}
events {{ worker_connections 2048; }}
http {{
    log_format ranges "$uri $http_range $status $body_bytes_sent";
    access_log {log}{'' if log == 'off' else ' ranges'}; keepalive_requests 1000000; sendfile on; tcp_nopush on;
    client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
    uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
    server {{
        listen 127.0.0.1:{http}; listen 127.0.0.1:{https} ssl;
        ssl_certificate {folder}/server.pem; ssl_certificate_key {folder}/server.key;
        root {files};
        location /private/ {{
            auth_basic "tests"; auth_basic_user_file {folder}/users;
            if ($arg_token != "tok-7") {{ return 403 "no such token"; }}
            alias {files}/;
        }}
        location /moved/ {{ rewrite ^/moved/(.*)$ /$1 redirect; }}
    }}
}}
""")
    with open(os.path.join(folder, "users"), "w", encoding="ascii") as out:
        out.write("me:{PLAIN}word-8\n")
    nginx = start(NGINX, "-c", os.path.join(folder, "nginx.conf"), "-e", os.path.join(folder, "error.log"), "-p", folder)
    wait_for(http, nginx)
    return http, https


def start_moto(log):
    """An S3 that checks signatures. Returns its URL, and a client that has a key."""
    import boto3

    port = free_port()
    url = f"http://127.0.0.1:{port}"
    moto = start(sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port), stdout=log,
                 env=dict(os.environ, INITIAL_NO_AUTH_ACTION_COUNT="1000000"))
    wait_for(port, moto)
    iam = boto3.client("iam", endpoint_url=url, region_name="us-east-1", aws_access_key_id="none",
                       aws_secret_access_key="none")
    iam.create_user(UserName="tester")
    iam.put_user_policy(UserName="tester", PolicyName="all", PolicyDocument=(
        '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}'))
    made = iam.create_access_key(UserName="tester")["AccessKey"]
    return url, s3_client(url, "none", "none"), made["AccessKeyId"], made["SecretAccessKey"]


def s3_client(url, key, secret):
    """A client whose signatures are right."""
    import boto3
    from botocore.config import Config

    return boto3.client("s3", endpoint_url=url, region_name="us-east-1", aws_access_key_id=key,
                        aws_secret_access_key=secret, config=Config(s3={"addressing_style": "path"}))


def check_keys(url, after=0):
    """From now on, moto wants a right signature, except for the next `after` requests."""
    request = urllib.request.Request(url + "/moto-api/reset-auth", data=b"%d" % after, method="POST",
                                     headers={"Content-Type": "text/plain"})
    urllib.request.urlopen(request).read()


def start_faulty(files, *log):
    process = start(sys.executable, os.path.join(HERE, "faulty_server.py"), files, *log, stdout=subprocess.PIPE)
    return int(process.stdout.readline())
