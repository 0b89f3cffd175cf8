"""WebDataset: tar shards streamed by curl, its own reader of URLs, shuffled through a buffer of 1,000. Option: workers."""
import os

import torch
import webdataset

from remote_common import BATCH, BUCKET, main, regroup, same

torch.set_num_threads(1)


def shards(endpoint, options):
    n, workers = len(os.listdir(os.environ["PEERS_FILES"] + "/bench/tar")), options.get("workers", 0)
    dataset = webdataset.WebDataset(f"{endpoint}/{BUCKET}/tar/{{0000..{n - 1:04d}}}.tar", shardshuffle=n, empty_check=False)
    dataset = dataset.shuffle(1000).to_tuple("jpg").batched(BATCH, collation_fn=same, partial=True)
    more = {"num_workers": workers, "persistent_workers": True, "prefetch_factor": 4} if workers else {}
    made = webdataset.WebLoader(dataset, batch_size=None, **more)
    return lambda: regroup(one for batch in made for (one,) in batch)


if __name__ == "__main__":
    main({"shards": shards})
