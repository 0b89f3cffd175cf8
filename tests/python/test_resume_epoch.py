"""After load_state_dict() an iteration gives the rest of one epoch, and no more."""
import itertools
import unittest

import numpy as np

import libiter


def loader():
    return libiter.Loader(np.arange(40), batch_size=4, shuffle=True, seed=5)


def rows(batches):
    return [[int(row) for row in batch[0]] for batch in batches]


class ResumeEpoch(unittest.TestCase):
    def setUp(self):
        plain = libiter.Loader(np.arange(40), batch_size=4, shuffle=True, seed=5, copy=True)
        self.epochs = [rows(plain), rows(plain)]

    def test_the_rest_then_the_next_epoch(self):
        for taken in range(1, 10):
            first, second = loader(), loader()
            for _, batch in zip(range(taken), first):
                pass
            del batch
            second.load_state_dict(first.state_dict())
            self.assertEqual([rows([batch])[0] for batch in second], self.epochs[0][taken:], taken)
            self.assertEqual([rows([batch])[0] for batch in second], self.epochs[1], taken)

    def test_saved_at_the_end(self):
        first, second = loader(), loader()
        for _ in first:
            pass
        second.load_state_dict(first.state_dict())
        self.assertEqual([rows([batch])[0] for batch in second], self.epochs[1])

    def test_an_iterator_goes_on(self):
        epoch = iter(loader())
        first = rows([next(epoch)])
        second = rows(itertools.islice(epoch, 1))
        self.assertEqual(first + second + [rows([batch])[0] for batch in epoch], self.epochs[0])
        self.assertEqual(list(epoch), [])  # it has ended, and begins nothing


if __name__ == "__main__":
    unittest.main()
