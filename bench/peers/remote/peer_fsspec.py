"""fsspec with s3fs: cat() of many files, cat_ranges() of places in tars that a list names. A batch of requests is in
flight at once. Option: ahead (samples that one call asks for).
"""
import os

import s3fs

from remote_common import BUCKET, batches, main, shuffled


def filesystem(endpoint, options):
    return s3fs.S3FileSystem(anon=True, endpoint_url=endpoint, config_kwargs={
        "max_pool_connections": options["ahead"], "s3": {"addressing_style": "path"}})


def in_batches(options, items, get):
    for group in batches(shuffled(items), options["ahead"]):
        yield from batches(get(group))


def raw(endpoint, options):
    fs = filesystem(endpoint, options)
    paths = fs.find(f"{BUCKET}/raw")
    return lambda: in_batches(options, paths, lambda group: list(fs.cat(group, batch_size=options["ahead"]).values()))


def shards(endpoint, options):
    fs = filesystem(endpoint, options)
    with open(os.environ["PEERS_FILES"] + "/bench/index.txt", encoding="ascii") as file:
        places = [(f"{BUCKET}/tar/{name}", int(offset), int(offset) + int(size)) for name, offset, size in map(str.split, file)]
    return lambda: in_batches(options, places, lambda group: fs.cat_ranges(*map(list, zip(*group)), batch_size=options["ahead"]))


if __name__ == "__main__":
    main({"raw": raw, "shards": shards})
