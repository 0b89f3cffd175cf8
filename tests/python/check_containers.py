"""The same pictures, some of them truncated, as files of a folder, of a list, as members of a tar
and as records, against Pillow: whole, in parts, for any number of workers.

Usage: check_containers.py with ITERBENCH and ITERPACK in the environment (built with JPEG, PNG and
WebP); otherwise skipped (77)
"""
import io, os, subprocess, sys, tarfile, tempfile

import philox

iterbench, iterpack = os.environ.get("ITERBENCH"), os.environ.get("ITERPACK")


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


if not iterbench or not iterpack:
    skip("ITERBENCH or ITERPACK names no program")
try:
    import numpy as np
    from PIL import Image, ImageFile
except ImportError:
    skip("no numpy or no Pillow")
ImageFile.LOAD_TRUNCATED_IMAGES = True

SEED, HEIGHT, WIDTH, PART = 3, 45, 53, 24
GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden")
WHOLE = ["images/rgb420.jpg", "images/progressive.jpg", "images/rgb8.png", "images/i_p4.png", "webp/lossy.webp", "webp/lossy_alpha.webp", "webp/lossless.webp",
         "webp/lossless_palette.webp", "webp/simple.webp"]
CUT = [("images/rgb420.jpg", 1200), ("images/restart.jpg", 900), ("images/p8.png", 1700), ("images/i_rgb8.png", 2500)]
pictures = []
for name, n in [(name, None) for name in WHOLE] + CUT:
    with open(os.path.join(GOLDEN, name), "rb") as f:
        data = f.read()[:n]
    pictures.append((os.path.splitext(name)[1], data, np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))))


def dump(data, chain, workers, out):
    done = subprocess.run([iterbench, "--loader", "dataloader", "--data", data, "--chain", chain, "--shuffle", "none", "--seed", str(SEED), "--batch",
                           str(len(pictures)), "--workers", str(workers), "--dump", out, "--batches", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        if "this build is without" in done.stderr:
            skip(done.stderr.strip())
        raise SystemExit("iterbench %s: %s" % (data, done.stderr.strip()))
    return np.load(os.path.join(out, "data.npy"))


bad = 0
with tempfile.TemporaryDirectory() as top:
    folder, tar_path, lst, rec = (os.path.join(top, name) for name in ("set", "set.tar", "set.lst", "set.rec"))
    os.makedirs(os.path.join(folder, "a"))
    with tarfile.open(tar_path, "w", format=tarfile.USTAR_FORMAT) as tar, open(lst, "w") as lines:
        for i, (ending, data, _) in enumerate(pictures):
            name = "a/%02d%s" % (i, ending)
            with open(os.path.join(folder, name), "wb") as f:
                f.write(data)
            lines.write("%d\t%d\t%s\n" % (i, i % 3, name))
            for member, content in (("%02d%s" % (i, ending), data), ("%02d.cls" % i, b"%d" % (i % 3))):
                info = tarfile.TarInfo(member)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    subprocess.run([iterpack, "pack", lst, rec, "--root", folder], check=True, stdout=subprocess.DEVNULL)
    for spec in ("folder:%s?" % folder, "folder:%s?root=%s&" % (lst, folder), "tar:%s?" % tar_path, "recordio:%s?" % rec):
        for workers in (0, 2):
            whole = dump(spec + "truncated=accept", "center-crop:height=%d,width=%d" % (HEIGHT, WIDTH), workers, os.path.join(top, "dump"))
            parts = dump(spec + "truncated=accept", "random-crop:%d" % PART, workers, os.path.join(top, "dump"))
            for i, (ending, _, pixels) in enumerate(pictures):
                draws = philox.Draws(SEED, "random-crop", i)
                y, x = draws.below(HEIGHT - PART + 1), draws.below(WIDTH - PART + 1)
                if not np.array_equal(whole[i], pixels) or not np.array_equal(parts[i], pixels[y:y + PART, x:x + PART]):
                    print(spec.replace(top, ""), "workers", workers, "picture", i, ending, "differs")
                    bad += 1
    listed = os.path.join(top, "listed.lst")
    subprocess.run([iterpack, "list", folder, listed], check=True, stdout=subprocess.DEVNULL)
    n_listed = len(open(listed).read().splitlines())
    if n_listed != len(pictures):
        print("iterpack list found", n_listed, "of", len(pictures))
        bad += 1
sys.exit(1 if bad else 0)
