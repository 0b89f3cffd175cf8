"""torchvision over photos by PyTorch's DataLoader, and its resize of one image."""
import torch
import torchvision.transforms.v2 as T
from PIL import Image
from torch.utils.data import Dataset
from torchvision.io import ImageReadMode, decode_jpeg, read_file

from contestants import PHOTO_MEAN, PHOTO_STD
from peer_photos import SIDE, Stills, listed, stills


class Files(Dataset):
    def __init__(self, load, *steps):
        self.files, self.load, self.steps = listed(), load, T.Compose(steps)

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        path, label = self.files[i]
        return self.steps(self.load(path)), label


def by_pillow(path):
    with Image.open(path) as image:
        return image.convert("RGB")


def by_torchvision(path):
    return decode_jpeg(read_file(path), mode=ImageReadMode.RGB)


def files(row):
    pillow = row.name.startswith("pil")
    steps = [T.RandomResizedCrop(SIDE, antialias=row.workload == "J2"), T.RandomHorizontalFlip()] + [T.PILToTensor()] * pillow
    return Files(by_pillow if pillow else by_torchvision, *steps, T.ToDtype(torch.float32, scale=True),
                 T.Normalize(PHOTO_MEAN, PHOTO_STD))


class Resized(Stills):
    def __init__(self):
        images = [torch.from_numpy(still).permute(2, 0, 1) for still in stills()]  # CHW over HWC memory: its fast way
        super().__init__(images, lambda image: T.functional.resize(image, [SIDE, SIDE], antialias=True))

    def to_numpy(self, data):
        return torch.stack(data).permute(0, 2, 3, 1).numpy()
