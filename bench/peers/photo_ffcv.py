"""FFCV's own forms of photos: JPEG once more, at quality 90, and pixels."""
import os

import cv2
from ffcv.fields import IntField, RGBImageField
from ffcv.writer import DatasetWriter

from peer_photos import listed, packed


class Files:
    def __init__(self, name):
        self.files = listed(name)

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        path, label = self.files[i]
        return cv2.cvtColor(cv2.imread(path, cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION), cv2.COLOR_BGR2RGB), label


FORMS = {"beton": {"write_mode": "jpg", "jpeg_quality": 90}, "raw.beton": {"write_mode": "raw"}}


def prepare():
    for name in ("photos", "charts"):
        for ending, form in FORMS.items():
            if os.path.exists(packed("lst", name)) and not os.path.exists(packed(ending, name)):
                fields = {"image": RGBImageField(**form), "label": IntField()}
                DatasetWriter(packed("beton.part", name), fields, num_workers=1).from_indexed_dataset(Files(name))
                os.rename(packed("beton.part", name), packed(ending, name))
