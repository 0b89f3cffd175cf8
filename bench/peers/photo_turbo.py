"""TurboLoader over a tar of photos: decoding, crop, flip and normalising in its one pass."""
import turboloader

from peer_common import BATCH, touch_array
from peer_photos import SIDE, Photos, packed


class Windows(Photos):
    def __init__(self, row):
        super().__init__()
        self.n_epochs = 0
        self.loader = turboloader.DataLoader(
            packed("tar"), batch_size=BATCH, num_workers=row.threads, shuffle=True, image_size=SIDE, train_aug=True,
            antialias=row.workload == "J2", transform=turboloader.ImageNetNormalize(), output_format="numpy_chw",
            prefetch_batches=2)

    def epoch(self):
        self.loader.set_epoch(self.n_epochs)
        self.n_epochs += 1
        for batch in self.loader:
            yield batch[0], None, len(batch[0])

    def touch(self, data):
        touch_array(data)


MAKE = {"noaa": Windows, "aa": Windows}
