"""Two ranks of one machine that load a set into memory, for test_fork.py.

Usage: ranks_program.py SPEC [RANK]. Rank 0 starts rank 1 while it has the set loaded. Each prints a line: bytes that it
read from the set, the hash of its epoch, and what the loader did without.
"""
import hashlib
import subprocess
import sys

import libiter


def main():
    spec, rank = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0
    made = hashlib.sha256()
    with libiter.Loader(spec, batch_size=16, workers=1, source="memory", rank=rank, ranks=2, local_ranks=2) as loader:
        for batch in loader:
            for field in batch:
                made.update(field.tobytes())
        stats = loader.stats()
        print(sum(stats.path_bytes.values()) - stats.path_bytes["memory"], made.hexdigest(), *stats.fallbacks, flush=True)
        if rank == 0:
            subprocess.run([sys.executable, __file__, spec, "1"], check=True)


main()
