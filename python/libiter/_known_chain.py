"""torchvision's transforms as the text of a chain, or the stage that has no equal here.

A transform is followed from stage to stage: is the image a PIL image, u8 or f32, how large is it,
what layout do our pixels have. Each stage is known by its exact class, so that a subclass with
another behaviour is never taken for its parent.

u8 becomes f32 as late as possible. `normalize` divides by 255 itself, and a flip or a crop gives
the same values before the conversion as after it.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

__all__ = ["NotKnown", "chain_of"]

NEAR_RESIZE = "Resize of u8 tensors: within 1 of 255 of torch's, not bit for bit"
NEAR_VALUES = "ToTensor and Normalize: within 1.2e-7 / std of torch's, not bit for bit"

_PILLOW_FILTERS = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}


class NotKnown(Exception):
    """A dataset or a transform that is not recognised. The text is the reason."""


class _Walk:
    """What is known about the image between two stages, and the chain so far.

    form            "pil", "u8" or "f32": what torchvision has in hand here
    height, width   of the image; None = it has any size
    channels        1 or 3
    layout          "CHW" or "HWC" of our pixels, which torchvision does not see
    pending         True = torchvision has floats in 0 .. 1, and our pixels are still u8
    """

    def __init__(self, channels: int, height: Optional[int], width: Optional[int], layout: str) -> None:
        self.form = "pil"
        self.channels, self.height, self.width, self.layout = channels, height, width, layout
        self.pending = False
        self.stages: List[str] = []
        self.notes: List[str] = []

    def add(self, name: str, **options: Any) -> None:
        given = ",".join(
            f"{key.replace('_', '-')}={_text(value)}" for key, value in options.items() if value is not None
        )
        self.stages.append(f"{name}:{given}" if given else name)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def to_bytes(self) -> None:
        """Resizes and colours want HWC."""
        if self.layout != "HWC":
            self.add("to", layout="hwc")
            self.layout = "HWC"

    def settle(self) -> None:
        """Our pixels become the floats that torchvision has."""
        if self.pending:
            self.add("normalize")
            self.pending = False
            self.note(NEAR_VALUES)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ";".join(_text(v) for v in value)
    return repr(float(value)) if isinstance(value, float) else str(value)


def _whole(value: Any, what: str) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise NotKnown(f"{what} is {value!r}, expected a whole number")
    return int(value.__index__())


def _pair(size: Any, what: str) -> Tuple[int, int]:
    sides = list(size) if isinstance(size, (list, tuple)) else [size]
    if len(sides) not in (1, 2):
        raise NotKnown(f"{what} has {len(sides)} numbers, expected 1 or 2")
    return _whole(sides[0], what), _whole(sides[-1], what)


def _numbers(values: Any, what: str) -> List[float]:
    try:
        listed = values.tolist() if hasattr(values, "tolist") else values
        return [float(v) for v in (listed if isinstance(listed, (list, tuple)) else [listed])]
    except (TypeError, ValueError):
        raise NotKnown(f"{what} is {values!r}, expected numbers") from None


# ---- element types -------------------------------------------------------------------------------


def _to_tensor(w: _Walk, t: Any) -> None:
    import torch

    if w.form != "pil":
        raise NotKnown("expects a PIL image, and gets a tensor here")
    if torch.get_default_dtype() != torch.float32:
        raise NotKnown(f"makes {torch.get_default_dtype()}, the default type; only torch.float32 is known")
    w.form, w.pending = "f32", True


def _to_image(w: _Walk, t: Any) -> None:
    if w.form == "pil":
        w.form = "u8"


def _pil_to_tensor(w: _Walk, t: Any) -> None:
    if w.form != "pil":
        raise NotKnown("expects a PIL image, and gets a tensor here")
    w.form = "u8"


def _nothing(w: _Walk, t: Any) -> None:
    pass


def _convert(w: _Walk, dtype: Any, scale: bool) -> None:
    import torch

    if dtype not in (torch.float32, torch.uint8):
        raise NotKnown(f"dtype is {dtype}, only torch.float32 is known")
    if dtype == torch.uint8 and w.form == "f32":
        raise NotKnown("from floats back to torch.uint8 is not known")
    if w.form == "u8" and dtype == torch.float32:
        if not scale:
            raise NotKnown("without scale=True is not known")
        w.form, w.pending = "f32", True


def _convert_image_dtype(w: _Walk, t: Any) -> None:
    if w.form == "pil":
        raise NotKnown("expects a tensor, and gets a PIL image here")
    _convert(w, t.dtype, True)


def _to_dtype(w: _Walk, t: Any) -> None:
    if isinstance(t.dtype, dict):
        raise NotKnown("a dtype for each kind of tensor is not known, only one torch.dtype")
    if w.form != "pil":  # it lets PIL images pass as they are
        _convert(w, t.dtype, bool(t.scale))


def _normalize(w: _Walk, t: Any) -> None:
    if w.form != "f32":
        raise NotKnown("expects floats: ToTensor, or ToDtype(torch.float32, scale=True), must come first")
    mean, std = _numbers(t.mean, "mean"), _numbers(t.std, "std")
    for what, values in (("mean", mean), ("std", std)):
        if len(values) not in (1, w.channels):
            raise NotKnown(f"{what} has {len(values)} numbers, and the image {w.channels} channels")
    if 0 in std:
        raise NotKnown("std has a 0")
    w.add("normalize", mean=mean, std=std)
    w.pending = False
    w.note(NEAR_VALUES)


# ---- size and place ------------------------------------------------------------------------------


def _interpolation(w: _Walk, t: Any) -> str:
    """Which of our filters gives the same pixels as `t` does in this form of the image."""
    given = t.interpolation
    name = _PILLOW_FILTERS.get(given, str(given)) if isinstance(given, int) else str(getattr(given, "value", given))
    if w.form == "pil" and name in ("bilinear", "bicubic"):  # Pillow has no resize without antialias
        import PIL

        if int(PIL.__version__.split(".")[0]) < 13:  # its passes have another order in rare cases
            w.note(f"{type(t).__name__} of PIL images: within 1 of 255 of Pillow {PIL.__version__}, not bit for bit")
        return name
    if w.form == "pil":
        raise NotKnown(f"interpolation={name} of PIL images is not known, only bilinear and bicubic")
    if w.form == "u8" and name == "nearest-exact":
        return "nearest"
    if w.form == "u8" and name == "bilinear" and t.antialias is True:
        w.note(NEAR_RESIZE)
        return name
    if w.form == "u8":
        raise NotKnown(
            f"interpolation={name}, antialias={t.antialias} of tensors is not known, only bilinear with "
            "antialias=True and nearest-exact"
        )
    raise NotKnown("of floats is not known: it must come before ToTensor or ToDtype")


def _filter_option(name: str) -> Optional[str]:
    return None if name == "bilinear" else name


def _resize(w: _Walk, t: Any) -> None:
    name = _interpolation(w, t)
    if t.size is None or getattr(t, "max_size", None) is not None:
        raise NotKnown("max_size is not known")
    is_short = not isinstance(t.size, (list, tuple)) or len(t.size) == 1
    height, width = _pair(t.size, "size")
    if is_short and w.height is not None and w.width is not None:
        old_height, old_width = w.height, w.width
        height, width = (
            (height, height * old_width // old_height)
            if old_height <= old_width
            else (height * old_height // old_width, height)
        )
        is_short = False
    if (height, width) == (w.height, w.width):
        return  # torchvision returns the image as it is
    w.to_bytes()
    if is_short:
        w.add("resize-short", size=height, interpolation=_filter_option(name))
        return
    w.add("resize", height=height, width=width, interpolation=_filter_option(name))
    w.height, w.width = height, width


def _random_resized_crop(w: _Walk, t: Any) -> None:
    name = _interpolation(w, t)
    height, width = _pair(t.size, "size")
    scale, ratio = _numbers(t.scale, "scale"), _numbers(t.ratio, "ratio")
    if len(scale) != 2 or not 0 < scale[0] <= scale[1] <= 1:
        raise NotKnown(
            f"scale={t.scale} is not known: expected two numbers, above 0 and at most 1, the smaller one first"
        )
    if len(ratio) != 2 or not 0 < ratio[0] <= ratio[1] <= 1000:
        raise NotKnown(f"ratio={t.ratio} is not known: expected two numbers, the smaller one first")
    w.to_bytes()
    w.add(
        "random-resized-crop", height=height, width=width, scale=scale, ratio=ratio, interpolation=_filter_option(name)
    )
    w.height, w.width = height, width


def _sides(padding: Any) -> Tuple[int, int, int, int]:
    """Left, top, right, bottom of torchvision's padding: one number, two, or four."""
    listed = [_whole(p, "padding") for p in (padding if isinstance(padding, (list, tuple)) else [padding])]
    if len(listed) not in (1, 2, 4) or min(listed) < 0:
        raise NotKnown(f"padding={padding} is not known: expected 1, 2 or 4 numbers, none below 0")
    left, top = listed[0], listed[1 % len(listed)]
    return (left, top, left, top) if len(listed) < 4 else (left, top, listed[2], listed[3])


def _fill(w: _Walk, t: Any) -> float:
    """The one value of added pixels, in the units of our pixels."""
    if isinstance(t.fill, dict):
        raise NotKnown("a fill for each kind of tensor is not known")
    values = _numbers(0 if t.fill is None else t.fill, "fill")
    if w.form != "pil" and isinstance(t.fill, (list, tuple)):
        raise NotKnown("a fill of several numbers is not known for tensors")
    if len(set(values)) != 1:
        raise NotKnown(f"fill={t.fill} is not known: expected one value for all channels")
    if w.form != "f32" and not (values[0] == int(values[0]) and 0 <= values[0] <= 255):
        raise NotKnown(f"fill={t.fill} is not known: expected a whole number from 0 to 255")
    return values[0]


def _add_pad(w: _Walk, sides: Sequence[int], mode: str, fill: float) -> None:
    left, top, right, bottom = sides
    if not any(sides):
        return
    if mode == "symmetric":
        raise NotKnown("padding_mode='symmetric' is not known")
    if mode == "reflect" and (w.height is None or w.width is None):
        raise NotKnown("padding_mode='reflect' is not known for images of any size")
    if mode == "reflect" and (max(top, bottom) >= (w.height or 0) or max(left, right) >= (w.width or 0)):
        raise NotKnown(f"padding_mode='reflect' by {max(sides)} is not known for images of {w.height} x {w.width}")
    if mode == "constant" and fill != 0:
        w.settle()
    w.add(
        "pad",
        left=left,
        top=top,
        right=right,
        bottom=bottom,
        mode=None if mode == "constant" else mode,
        value=fill if mode == "constant" and fill != 0 else None,
    )
    if w.height is not None and w.width is not None:
        w.height, w.width = w.height + top + bottom, w.width + left + right


def _pad(w: _Walk, t: Any) -> None:
    _add_pad(w, _sides(t.padding), t.padding_mode, _fill(w, t))


def _random_crop(w: _Walk, t: Any) -> None:
    height, width = _pair(t.size, "size")
    padding = t.padding
    if padding is not None and hasattr(t, "_fill"):  # v2 keeps left, right, top, bottom
        left, right, top, bottom = (_whole(p, "padding") for p in padding)
        padding = [left, top, right, bottom]
    sides = (0, 0, 0, 0) if padding is None else _sides(padding)
    fill, mode = _fill(w, t), t.padding_mode
    if w.height is None or w.width is None:
        if t.pad_if_needed:
            raise NotKnown("pad_if_needed is not known for images of any size")
    elif height > w.height + sides[1] + sides[3] or width > w.width + sides[0] + sides[2]:
        raise NotKnown(
            f"a window of {height} x {width} does not fit into {w.height} x {w.width} with padding={padding}"
        )
    if len(set(sides)) == 1 and mode in ("constant", "edge") and (fill == 0 or not w.pending or mode != "constant"):
        w.add(
            "random-crop",
            height=height,
            width=width,
            pad=sides[0] or None,
            mode=None if mode == "constant" or not any(sides) else mode,
            fill=fill if any(sides) and mode == "constant" and fill != 0 else None,
        )
    else:
        _add_pad(w, sides, mode, fill)
        w.add("random-crop", height=height, width=width)
    w.height, w.width = height, width


def _center_crop(w: _Walk, t: Any) -> None:
    height, width = _pair(t.size, "size")
    if w.height is not None and w.width is not None:  # a smaller image gets a black border first
        rows, columns = max(height - w.height, 0), max(width - w.width, 0)
        _add_pad(w, (columns // 2, rows // 2, (columns + 1) // 2, (rows + 1) // 2), "constant", 0)
    if (height, width) != (w.height, w.width):
        w.add("center-crop", height=height, width=width, rounding="torchvision")
    w.height, w.width = height, width


def _flip(axis: Optional[str]) -> Callable[[_Walk, Any], None]:
    def flip(w: _Walk, t: Any) -> None:
        if not 0 <= t.p <= 1:
            raise NotKnown(f"p={t.p} is not known: expected 0 to 1")
        if t.p > 0:
            w.add("random-flip", p=float(t.p), axis=axis)

    return flip


# ---- colours -------------------------------------------------------------------------------------


def _needs_pil(w: _Walk) -> None:
    if w.form != "pil":
        raise NotKnown(
            "of tensors rounds otherwise than of PIL images, which alone are known: it must come before "
            "ToTensor, PILToTensor or ToImage"
        )


def _color_jitter(w: _Walk, t: Any) -> None:
    _needs_pil(w)
    found: Dict[str, Optional[float]] = {}
    for what, middle in (("brightness", 1.0), ("contrast", 1.0), ("saturation", 1.0), ("hue", 0.0)):
        bounds = getattr(t, what)
        if bounds is None:
            continue
        low, high = (float(b) for b in bounds)
        reach = high - middle
        least = max(0.0, middle - reach) if middle else -reach
        if abs(low - least) > 1e-9 or not 0 <= reach <= 100:
            raise NotKnown(f"{what}={(low, high)} is not known: expected the same reach below and above {middle:g}")
        found[what] = reach
    if found:
        w.to_bytes()
        w.add("color-jitter", **found)


def _grayscale(w: _Walk, t: Any) -> None:
    _needs_pil(w)
    if t.num_output_channels != w.channels:
        raise NotKnown(f"num_output_channels={t.num_output_channels} of an image with {w.channels} is not known")
    if w.channels == 3:
        w.to_bytes()
        w.add("grayscale")


def _random_grayscale(w: _Walk, t: Any) -> None:
    _needs_pil(w)
    if w.channels == 3 and t.p > 0:
        w.to_bytes()
        w.add("random-grayscale", p=float(t.p))


# ---- the walk ------------------------------------------------------------------------------------

_STAGES: Dict[str, Callable[[_Walk, Any], None]] = {
    "ToTensor": _to_tensor,
    "PILToTensor": _pil_to_tensor,
    "ToImage": _to_image,
    "ToPureTensor": _nothing,
    "Identity": _nothing,
    "ConvertImageDtype": _convert_image_dtype,
    "ToDtype": _to_dtype,
    "Normalize": _normalize,
    "Resize": _resize,
    "RandomResizedCrop": _random_resized_crop,
    "Pad": _pad,
    "RandomCrop": _random_crop,
    "CenterCrop": _center_crop,
    "RandomHorizontalFlip": _flip(None),
    "RandomVerticalFlip": _flip("vertical"),
    "ColorJitter": _color_jitter,
    "Grayscale": _grayscale,
    "RandomGrayscale": _random_grayscale,
}


def _classes() -> Tuple[Dict[type, Callable[[_Walk, Any], None]], Tuple[type, ...]]:
    """Each known class of v1 and v2 with its function, and the classes that hold a list of stages."""
    import torch
    import torchvision.transforms as v1  # type: ignore[import-untyped,import-not-found,unused-ignore]

    modules = [v1, torch.nn]
    try:
        import torchvision.transforms.v2 as v2  # type: ignore[import-untyped,import-not-found,unused-ignore]

        modules.append(v2)
    except ImportError:  # torchvision before 0.15
        pass
    known = {getattr(m, name): f for m in modules for name, f in _STAGES.items() if hasattr(m, name)}
    lists = tuple(getattr(m, name) for m in modules for name in ("Compose", "Sequential") if hasattr(m, name))
    return known, lists


def _flatten(transform: Any, lists: Tuple[type, ...]) -> List[Any]:
    if type(transform) not in lists:
        return [transform]
    if _is_changed(transform):
        raise NotKnown(f"{type(transform).__name__}: has hooks, or a forward() of its own")
    inner = getattr(transform, "transforms", None)
    return [stage for t in (transform if inner is None else inner) for stage in _flatten(t, lists)]


def _is_changed(stage: Any) -> bool:
    own = getattr(stage, "__dict__", {})
    return bool(
        own.get("_forward_hooks")
        or own.get("_forward_pre_hooks")
        or {"forward", "transform", "make_params", "get_params"} & set(own)
    )


def chain_of(
    transform: Any, channels: int, height: Optional[int], width: Optional[int], layout: str
) -> Tuple[str, List[str]]:
    """The chain that gives the pixels of `transform` over PIL images.

    transform      a torchvision transform, v1 or v2: one stage, a Compose, nested ones
    channels       of the images: 1 or 3
    height, width  of all images; None = they have any size
    layout         "CHW" or "HWC": how our dataset stores them

    Returns the chain's text, whose result is f32 or u8 [channels, height, width] "CHW", and notes
    about what is near, but not bit for bit the same. Raises NotKnown with the stage in the way.
    """
    known, lists = _classes()
    w = _Walk(channels, height, width, layout)
    for number, stage in enumerate(_flatten(transform, lists), 1):
        name = getattr(stage, "__name__", type(stage).__name__)
        translate = known.get(type(stage))
        try:
            if translate is None:
                raise NotKnown("is not known")
            if _is_changed(stage):
                raise NotKnown("has hooks, or a forward() of its own")
            translate(w, stage)
        except NotKnown as reason:
            raise NotKnown(f"stage {number}, {name}: {reason}") from None
        except AttributeError as missing:
            raise NotKnown(f"stage {number}, {name}: is not as expected: {missing}") from None
    if w.form == "pil":
        raise NotKnown("the transform ends with PIL images, which default_collate refuses: ToTensor is missing")
    if w.height is None:
        raise NotKnown(
            "no stage gives the images one size: Resize((height, width)), CenterCrop, RandomCrop or RandomResizedCrop"
        )
    w.settle()
    w.add("to", dtype=w.form, layout="nchw")
    return " | ".join(w.stages), w.notes
