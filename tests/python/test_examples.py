"""examples/python/*.py run and print what they should, on generated data and, if there are any, on real files."""
import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import unittest

import libiter

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
FOLDER = os.path.join(ROOT, "examples", "python")


def cifar10():
    """The spec of the real set, where scripts/find_data.sh looks; None if there is none."""
    for root in (os.environ.get("ITER_DATA"), os.path.join(ROOT, "data")):
        folder = os.path.join(root, "cifar-10-batches-bin") if root else ""
        if folder and os.path.isdir(folder):
            return "cifar10:" + folder
    return None


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Examples(unittest.TestCase):
    def run_example(self, name, *arguments, needs=()):
        for module in ("numpy",) + tuple(needs):
            if importlib.util.find_spec(module) is None:
                self.skipTest("%s is not installed" % module)
        command = [sys.executable, os.path.join(FOLDER, name), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, "%s: %s" % (name, done.stderr[-2000:]))
        return done.stdout

    def each_data(self):
        """No argument, then the real set."""
        yield ()
        if cifar10():
            yield (cifar10(),)
        else:
            print("note: no CIFAR-10 in ITER_DATA or ./data, generated data alone", file=sys.stderr)

    def test_first_batch(self):
        for arguments in self.each_data():  # 50,000 images either way: 781 x 64 + 16
            out = self.run_example("first_batch.py", *arguments)
            self.assertEqual(len(re.findall(r"^epoch [01]: 782 batches, the last of 16 images: \d+\.\d$", out, re.M)), 2, out)

    def test_first_batch_without_the_set(self):
        done = subprocess.run(
            [sys.executable, os.path.join(FOLDER, "first_batch.py"), "cifar10:missing"], capture_output=True, text=True
        )
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr.splitlines()[-1], "InputOutput: .*missing")

    def test_numpy_only(self):
        for arguments in self.each_data():
            out = self.run_example("numpy_only.py", *arguments)
            before, after = (float(x) for x in re.findall(r": (\d\.\d\d)$", out, re.M))
            self.assertLess(before, 0.15)
            self.assertGreater(after, 0.3 if arguments else 0.9)  # a linear classifier of CIFAR-10: about 0.38

    def test_resume_after_kill(self):
        for arguments in self.each_data():
            out = self.run_example("resume_after_kill.py", *arguments)
            self.assertIn("killed after batch 97\n", out)
            self.assertIn("continues after batch 90 with 1 workers\n", out)
            batches = 2 * -(-50000 // 256) if arguments else 2 * -(-20000 // 256)
            self.assertIn("%d batches; rows and weights are those of a run that was never killed" % batches, out)

    def test_tokenize_jsonl(self):
        out = self.run_example("tokenize_jsonl.py", needs=["tokenizers"])
        self.assertRegex(out, r"^400 lines, \d+ tokens, 0 lines cut at 48\n400 of the other 400 lines come back")

    def test_tokenize_words(self):
        with tempfile.TemporaryDirectory() as folder:
            for split, texts in (("train", ["A good film", "a bad, bad film", "good"]), ("test", ["bad actors"])):
                os.makedirs(os.path.join(folder, "set", split, "pos"))
                for number, text in enumerate(texts):
                    with open(os.path.join(folder, "set", split, "pos", "%d_1.txt" % number), "w", encoding="utf-8") as file:
                        file.write(text)
            out = self.run_example("tokenize_words.py", os.path.join(folder, "out"), os.path.join(folder, "set"), "--words", "7")
            self.assertIn("train: 3 documents, 12 tokens, the longest has 6", out)
            spec = "tokens:%s?documents=whole" % os.path.join(folder, "out", "train.idx")
            with open(os.path.join(folder, "out", "words.txt"), encoding="utf-8") as file:
                words = file.read().split()
            self.assertEqual(words[3:], ["a", "bad", "film", "good"])
            with libiter.Loader(spec, "pad-batch", batch_size=3) as loader:
                self.assertEqual(next(loader).data.tolist(), [[1, 3, 6, 5, 0, 0], [1, 3, 4, 2, 4, 5], [1, 6, 0, 0, 0, 0]])

    def test_custom_dataset(self):
        out = self.run_example("custom_dataset.py")
        self.assertIn("the same rows with 0 and 2 workers: yes", out)
        self.assertRegex(out, r"99 of 100 samples; sample 42: .*this recording is empty \(custom_dataset\.py:\d+\)")

    def test_jax_train(self):
        for arguments in self.each_data():
            out = self.run_example("jax_train.py", *arguments, needs=["jax"])
            first, second = (float(x) for x in re.findall(r"loss (\d\.\d+)", out))
            self.assertLess(second, first)

    def test_ddp_torchrun(self):
        for arguments in self.each_data():
            out = self.run_example("ddp_torchrun.py", *arguments, needs=["torch"])
            self.assertIn("every sample once: True", out)
            self.assertIn("the same on all ranks: True", out)

    def test_ddp_by_torchrun(self):
        if importlib.util.find_spec("torch") is None:
            self.skipTest("torch is not installed")
        launch = "-m torch.distributed.run --nproc-per-node 2 --master-addr 127.0.0.1 --master-port".split()
        command = [sys.executable, *launch, str(free_port()), os.path.join(FOLDER, "ddp_torchrun.py"), "synthetic:cifar10?n=1001"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        self.assertIn("2 ranks, [500, 501] samples each; every sample once: True", done.stdout)

    def test_notebook_profile(self):
        for arguments in self.each_data():
            with tempfile.TemporaryDirectory() as folder:
                trace = os.path.join(folder, "trace.json")
                out = self.run_example("notebook_profile.py", arguments[0] if arguments else "synthetic:cifar10", trace)
                self.assertRegex(out, r"(?m)^forward +100 ")
                self.assertRegex(out, r"(?m)^next +100 ")
                with open(trace, encoding="utf-8") as file:
                    self.assertIn("forward", json.dumps(json.load(file)))

    def test_all_are_tested(self):
        with open(__file__, encoding="utf-8") as file:
            text = file.read()
        others = {"torch_cifar.py"}  # test_torch_example.py
        for name in sorted(set(os.listdir(FOLDER)) - others):
            if name.endswith(".py"):
                self.assertIn('"%s"' % name, text)


if __name__ == "__main__":
    unittest.main()
