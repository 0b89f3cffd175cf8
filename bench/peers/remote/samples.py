"""What all contestants read: the same samples as files, as shards, and as each peer's own chunks.

    samples.py SCRATCH PHOTOS N ITERPACK    makes SCRATCH/N/bench/{raw,tar,rec,lit}, once

PHOTOS is a folder with JPEG files. A sample is a photo with its number after its end, 8 bytes, so all samples differ.
The folder SCRATCH/N is what s3_face serves, with one bucket, "bench". SCRATCH/N/about.json has the number of samples,
their bytes, and the sum of their CRC-32s, which every contestant's sum must equal.
"""
import functools
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zlib

SHARD = 512  # samples
CLASSES = 8


def photos(folder):
    paths = sorted(os.path.join(root, name) for root, _, names in os.walk(folder) for name in names if name.endswith(".jpg"))
    for path in paths:
        with open(path, "rb") as file:
            yield file.read()


def sample(stored, i):
    return stored[i % len(stored)] + b"%08d" % i


def add(tar, name, data):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def write_files(stored, n, bucket):
    for i in range(n):
        folder = os.path.join(bucket, "raw", "c%d" % (i % CLASSES))
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "%06d.jpg" % i), "wb") as out:
            out.write(sample(stored, i))


def write_tars(stored, n, bucket):
    os.makedirs(os.path.join(bucket, "tar"))
    for shard in range(-(-n // SHARD)):
        with tarfile.open(os.path.join(bucket, "tar", "%04d.tar" % shard), "w", format=tarfile.USTAR_FORMAT) as tar:
            for i in range(shard * SHARD, min(n, (shard + 1) * SHARD)):
                add(tar, "%06d.jpg" % i, sample(stored, i))
                add(tar, "%06d.cls" % i, b"%d" % (i % CLASSES))


def write_index(bucket):
    """Where each photo lies in each shard, for readers by ranges: a line "SHARD OFFSET SIZE"."""
    with open(os.path.join(bucket, "index.txt"), "w", encoding="ascii") as out:
        for name in sorted(os.listdir(os.path.join(bucket, "tar"))):
            with tarfile.open(os.path.join(bucket, "tar", name)) as tar:
                for member in tar:
                    if member.name.endswith(".jpg"):
                        out.write("%s %d %d\n" % (name, member.offset_data, member.size))


@functools.lru_cache
def stored_photos(folder):
    return list(photos(folder))


def lit_sample(i, folder):
    return {"image": sample(stored_photos(folder), i)}


def write_chunks(folder, n, bucket):
    import litdata
    litdata.optimize(fn=functools.partial(lit_sample, folder=folder), inputs=list(range(n)),
                     output_dir=os.path.join(bucket, "lit"), num_workers=1, chunk_bytes="16MB")


def write_records(n, bucket, iterpack):
    """libiter's own: split record files with their indexes."""
    os.makedirs(os.path.join(bucket, "rec"))
    raw, text = os.path.join(bucket, "raw"), os.path.join(bucket, "list.lst")
    subprocess.run([iterpack, "list", raw, text], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([iterpack, "pack", text, os.path.join(bucket, "rec", "set.rec"), "--root", raw, "--shards",
                    str(-(-n // SHARD))], check=True, stdout=subprocess.DEVNULL)


def make(scratch, photo_folder, n, iterpack):
    """The folder to serve, and what is in it."""
    folder = os.path.join(scratch, str(n))
    about_path = os.path.join(folder, "about.json")
    if not os.path.exists(about_path):
        shutil.rmtree(folder, ignore_errors=True)
        bucket = os.path.join(folder, "bench")
        os.makedirs(bucket)
        stored = stored_photos(photo_folder)
        if not stored:
            raise SystemExit("no photos in %s" % photo_folder)
        write_files(stored, n, bucket)
        write_tars(stored, n, bucket)
        write_index(bucket)
        write_records(n, bucket, iterpack)
        write_chunks(photo_folder, n, bucket)
        every = [sample(stored, i) for i in range(n)]
        with open(about_path, "w", encoding="utf-8") as out:
            json.dump({"samples": n, "bytes": sum(map(len, every)), "sum": sum(map(zlib.crc32, every))}, out)
    with open(about_path, encoding="utf-8") as file:
        return folder, json.load(file)


if __name__ == "__main__":
    print(json.dumps(make(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])[1]))
