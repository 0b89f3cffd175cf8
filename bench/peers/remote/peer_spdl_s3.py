"""SPDL's pipeline. It reads no URLs itself, so a stage of it calls a client of S3: obstore's, which is made in Rust, or
boto3's. Of shards, a stage fetches a tar whole and the next one takes it apart.

Options: concurrency (threads of the stage that fetches), boto (1 = by boto3).
"""
import io
import tarfile

from spdl.pipeline import PipelineBuilder

from remote_common import BATCH, BUCKET, main, shuffled


def client(endpoint, options):
    """(names below a prefix, get by name)."""
    if options.get("boto"):
        import boto3
        from botocore import UNSIGNED
        from botocore.config import Config
        s3 = boto3.client("s3", endpoint_url=endpoint, config=Config(
            signature_version=UNSIGNED, max_pool_connections=options["concurrency"], s3={"addressing_style": "path"}))
        pages = s3.get_paginator("list_objects_v2")
        return (lambda prefix: [one["Key"] for page in pages.paginate(Bucket=BUCKET, Prefix=prefix) for one in page["Contents"]],
                lambda key: s3.get_object(Bucket=BUCKET, Key=key)["Body"].read())
    import obstore
    from obstore.store import S3Store
    store = S3Store(BUCKET, endpoint=endpoint, skip_signature=True, region="us-east-1", virtual_hosted_style_request=False,
                    client_options={"allow_http": True})
    return (lambda prefix: [one["path"] for page in obstore.list(store, prefix) for one in page],
            lambda key: obstore.get(store, key).bytes())


def pipeline(builder, options):
    return builder.aggregate(BATCH).add_sink(8).build(num_threads=options["concurrency"] + 1)


def epochs(build):
    def epoch():
        running = build()
        with running.auto_stop():
            yield from running.get_iterator(timeout=120)
    return epoch


def raw(endpoint, options):
    names, get = client(endpoint, options)
    keys = names("raw/")
    return epochs(lambda: pipeline(PipelineBuilder().add_source(shuffled(keys)).pipe(get, concurrency=options["concurrency"]), options))


def untar(data):
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
        for member in tar:
            if member.name.endswith(".jpg"):
                yield data[member.offset_data:member.offset_data + member.size]


def shards(endpoint, options):
    names, get = client(endpoint, options)
    keys = names("tar/")
    return epochs(lambda: pipeline(PipelineBuilder().add_source(shuffled(keys)).pipe(
        lambda key: bytes(get(key)), concurrency=options["concurrency"]).pipe(untar), options))


if __name__ == "__main__":
    main({"raw": raw, "shards": shards})
