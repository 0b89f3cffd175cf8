"""The source of URLs: servers that refuse, checksums that servers give, requests for neighbours."""
import base64
import hashlib
import os
import sys
import unittest
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # noqa: E402
from test_remote import IMAGES, hash_of, sets, usable  # noqa: E402

WRONG = "the bytes do not have the checksum that the server gave"


def counts(plan):
    with urllib.request.urlopen(f"http://127.0.0.1:{sets().faulty}/{plan}/counts") as answer:
        return [int(word) for word in answer.read().split()]


def list_of(url, name):
    """A list of the photos at `url`, so that each request is for a whole file."""
    s = sets()
    path = os.path.join(s.folder, name)
    with open(os.path.join(s.files, "photos.lst"), encoding="utf-8") as listed, open(path, "w") as out:
        for line in listed:
            number, label, photo = line.rstrip("\n").split("\t")
            out.write(f"{number}\t{label}\t{url}/photos/{photo}\n")
    return f"folder:{path}"


def photos_here():
    s = sets()
    return hash_of(f"folder:{s.files}/photos.lst?root={s.files}/photos", *IMAGES)


@unittest.skipUnless(usable(), "this build reads no URLs")
class Source(unittest.TestCase):
    def test_throttled(self):
        """All of a set comes from a server that grants 200 requests a second, and few are refused."""
        s = sets()
        args = ("--batch", "16", "--source", "ring", "--shuffle", "full", "--workers", "1")
        local = hash_of(f"tokens:{s.files}/tokens.bin?length=64", *args)
        self.assertRegex(local, "^[0-9a-f]+$")
        plan = "grants-200"
        self.assertEqual(hash_of(f"tokens:http://127.0.0.1:{s.faulty}/{plan}/tokens.bin?length=64", *args), local)
        answers, refused, _ = counts(plan)
        self.assertGreater(answers, 700)
        self.assertGreater(refused, 0)
        self.assertLess(refused / (answers + refused), 0.4)

    def test_checksums(self):
        """A flipped bit is found by each kind of checksum, and the file asked for again; without one it is not."""
        s = sets()
        local = photos_here()
        self.assertRegex(local, "^[0-9a-f]+$")
        for kind in ("crc32c", "crc32", "sha1", "sha256", "goog", "md5", "digest"):
            plan = f"sum-{kind}+flip-9"
            spec = list_of(f"http://127.0.0.1:{s.faulty}/{plan}", kind + ".lst")
            self.assertEqual(hash_of(spec, *IMAGES, "--source", "ring"), local, kind)
            self.assertGreater(counts(plan)[0], 24, "some were asked for again")
        plain = list_of(f"http://127.0.0.1:{s.faulty}/flip-1+ok", "plain.lst")
        self.assertNotEqual(hash_of(plain, *IMAGES, "--source", "ring"), local)

    def test_wrong_checksum(self):
        """If the bytes stay wrong the sample fails, whether it is read for itself or with others."""
        s = sets()
        spec = list_of(f"http://127.0.0.1:{s.faulty}/sum-crc32c+flip-1", "wrong.lst")
        for source in ("ring", "memory"):
            said = hash_of(spec, *IMAGES, "--source", source)
            self.assertRegex(said, r"/photos/\w+/\d+\.png:", source)
            if source == "ring":
                self.assertRegex(said, WRONG + r" \(\d+ tries\)")
        said = hash_of(f"tokens:http://127.0.0.1:{s.faulty}/sum-crc32c+flip-1/tokens.bin?length=33333",
                       "--batch", "3", "--source", "ring", "--shuffle", "none")
        self.assertRegex(said, WRONG)

    def test_s3_checksums(self):
        """Moto keeps the checksum that an upload names. One of other bytes makes the sample fail."""
        s = sets()
        if not s.s3:
            self.skipTest("moto and boto3 are not installed")
        with open(os.path.join(s.files, "photos", "one", "0.png"), "rb") as file:
            picture = file.read()
        right = base64.b64encode(hashlib.sha256(picture).digest()).decode()
        wrong = base64.b64encode(hashlib.sha256(picture + b"x").digest()).decode()
        servers.check_keys(s.s3, after=1000)
        for name, given in (("right", right), ("wrong", wrong)):
            s.client.put_object(Bucket="sets", Key=f"sums/{name}/0.png", Body=picture, ChecksumAlgorithm="SHA256",
                                ChecksumSHA256=given)
        kept = s.client.head_object(Bucket="sets", Key="sums/wrong/0.png", ChecksumMode="ENABLED")
        servers.check_keys(s.s3)
        if kept.get("ChecksumSHA256") != wrong:
            self.skipTest("this moto keeps no checksums")
        args = ("--batch", "1", *IMAGES[2:], "--source", "ring")
        self.assertRegex(hash_of("folder:s3://sets/sums/right?labels=no", *args, **s.s3_env()), "^[0-9a-f]+$")
        self.assertRegex(hash_of("folder:s3://sets/sums/wrong?labels=no", *args, **s.s3_env()), WRONG)

    def test_neighbours(self):
        """Neighbours of a batch are one request, of at most 1 MiB, though the rows of tokens overlap."""
        s = sets()
        with open(os.path.join(s.files, "long.bin"), "wb") as out:
            out.write(bytes(i * 7 & 255 for i in range(251)) * 33418)  # 8191 rows of 1 KiB
        for batch, n_most in ((64, 128), (2048, 12)):
            more = ("--source", "ring", "--batch", str(batch), "--hash")
            plan = f"ok-{batch}"
            local = hash_of(f"tokens:{s.files}/long.bin?length=512", *more)
            self.assertEqual(hash_of(f"tokens:http://127.0.0.1:{s.faulty}/{plan}/long.bin?length=512", *more), local)
            requests, _, most = counts(plan)
            self.assertLessEqual(most, 1 << 20)
            # two epochs, and some that are for the next ones or to look at the file
            self.assertLess(requests, 4 * n_most + 16, f"batches of {batch}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
