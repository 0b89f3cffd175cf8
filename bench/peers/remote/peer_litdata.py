"""litData: StreamingRawDataset over files (many downloads at once within a batch), StreamingDataset over its own chunks.

A chunk goes through a folder of this machine, which is a new one in each epoch, so that each epoch downloads. The
folder is in memory (/dev/shm) if there is one. Options: workers, concurrent (of raw: downloads at once).
"""
import os
import shutil
import tempfile

import litdata
import torch
from litdata.streaming import downloader
from litdata.streaming.resolver import Dir

from remote_common import BATCH, BUCKET, SEED, main, same

torch.set_num_threads(1)
PLACE = "/dev/shm" if os.path.isdir("/dev/shm") else None


def storage(endpoint):
    downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True  # there is no option for it, and its server is at http here
    return {"endpoint_url": endpoint}


def images(batch):
    return [bytes(one["image"]) for one in batch]  # it gives views, which no worker can send


def workers_of(options):
    workers = options.get("workers", 0)
    return {"num_workers": workers, "persistent_workers": True, "prefetch_factor": 4} if workers else {}


def raw(endpoint, options):
    folder = tempfile.mkdtemp(prefix="litdata-", dir=PLACE)
    dataset = litdata.StreamingRawDataset(f"s3://{BUCKET}/raw", cache_dir=folder, storage_options=storage(endpoint),
                                          max_concurrent_downloads=options.get("concurrent"))
    made = torch.utils.data.DataLoader(dataset, batch_size=BATCH, shuffle=True, collate_fn=same,
                                       generator=torch.Generator().manual_seed(SEED), **workers_of(options))
    return lambda: made


def shards(endpoint, options):
    def epoch():
        folder = tempfile.mkdtemp(prefix="litdata-", dir=PLACE)
        try:
            dataset = litdata.StreamingDataset(Dir(path=folder, url=f"s3://{BUCKET}/lit"), shuffle=True, seed=SEED,
                                               storage_options=storage(endpoint), max_pre_download=4)
            more = {key: value for key, value in workers_of(options).items() if key != "persistent_workers"}
            yield from litdata.StreamingDataLoader(dataset, batch_size=BATCH, collate_fn=images, **more)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return epoch


if __name__ == "__main__":
    main({"raw": raw, "shards": shards})
