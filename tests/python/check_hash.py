"""The hash of iterbench --hash, computed a second time from its definition in docs/json.md, over a
small set made here.

Usage: check_hash.py with ITERBENCH in the environment; without it only the committed number is
checked.
"""
import os, struct, subprocess, sys, tempfile

EXPECTED = '03701f9ccf491190'  # two epochs, --shuffle none: 70 records, labels (7 i) mod 10, pixels (31 i + 7 j + j // 256) mod 256
records = [bytes([7 * i % 10]) + bytes((31 * i + 7 * j + j // 256) % 256 for j in range(3072)) for i in range(70)]


def fnv(data, h=0xcbf29ce484222325):
    for byte in data:
        h = (h ^ byte) * 0x100000001b3 % 2**64
    return h


total = 0
for epoch in range(2):
    for position, record in enumerate(records):
        data = struct.pack('<QQIIIQQQ', epoch, position, 0, 1, 3, 3, 32, 32) + record[1:]  # field 0, u8 [3, 32, 32]
        label = struct.pack('<QQIII', epoch, position, 1, 1, 0) + record[:1]                # field 1, u8 []
        total = (total + fnv(data) + fnv(label)) % 2**64
print('python     %016x' % total)
failed = '%016x' % total != EXPECTED

iterbench = os.environ.get('ITERBENCH')
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, 'batch.bin')
    with open(path, 'wb') as file:
        file.write(b''.join(records))
    for extra in [[], ['--batch', '7'], ['--batch', '9', '--last-batch', 'pad', '--ranks', '2'], ['--loader', 'ndarray', '--workers', '2']] if iterbench else []:
        command = [iterbench, '--data', 'cifar10:' + path, '--shuffle', 'none', '--epochs', '2', '--hash', '--json', '-'] + extra
        out = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
        got = [line.split('"')[3] for line in out.splitlines() if '"hash"' in line][-1]
        print('iterbench ', got, *extra)
        failed = failed or got != EXPECTED
sys.exit(failed)
