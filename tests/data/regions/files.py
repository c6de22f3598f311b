"""Small files in the formats of people's features, written as their public descriptions say."""

import base64
import io
import json
import pickle
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

DIM = 8
IDS = (9, 25, 30, 34, 36, 391895)
WIDTH, HEIGHT = 640, 480
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Seen:
    """What a detector saw in an image."""

    features: Array  # (R, F) float32
    boxes: Array  # (R, 4) float32, in pixels

    @property
    def shares(self) -> Array:
        return self.boxes / np.array([WIDTH, HEIGHT] * 2, np.float32)


def see(ids: tuple[int, ...] = IDS, seed: int = 0) -> dict[int, Seen]:
    """Between 2 and 5 regions in each image."""
    random = np.random.default_rng(seed)
    found = {}
    for place, id_ in enumerate(ids):
        regions = 2 + place % 4
        features = random.normal(size=(regions, DIM)).astype(np.float32)
        corners = np.sort(random.uniform(size=(regions, 2, 2)), axis=1)
        boxes = corners.reshape(regions, 4) * np.array([WIDTH, HEIGHT] * 2)
        found[id_] = Seen(features, boxes.astype(np.float32))
    return found


def file_name(id_: int) -> str:
    return f"COCO_val2014_{id_:012d}.jpg"


def write_dataset(path: Path, ids: tuple[int, ...] = IDS, val: int = 2) -> Path:
    """Karpathy's layout; the last `val` images are of the split val."""
    images = [
        {
            "cocoid": id_,
            "filepath": "val2014",
            "filename": file_name(id_),
            "split": "val" if place >= len(ids) - val else "train",
            "sentences": [{"raw": text} for text in ("A red dog.", f"A {_THING[place % 3]} sits.")],
        }
        for place, id_ in enumerate(ids)
    ]
    path.write_text(json.dumps({"images": images}))
    return path


_THING = ("dog", "cat", "bird")


def write_sizes(path: Path, ids: tuple[int, ...] = IDS) -> Path:
    """As COCO's captions_val2014.json tells them."""
    images = [
        {"id": id_, "file_name": file_name(id_), "width": WIDTH, "height": HEIGHT} for id_ in ids
    ]
    path.write_text(json.dumps({"images": images, "annotations": []}))
    return path


def att(folder: Path, seen: Mapping[int, Seen]) -> str:
    for name in ("cocobu_att", "cocobu_fc", "cocobu_box"):
        (folder / name).mkdir(exist_ok=True)
    for id_, own in seen.items():
        np.savez_compressed(folder / f"cocobu_att/{id_}", feat=own.features)
        np.save(folder / f"cocobu_fc/{id_}", own.features.mean(0))
        np.save(folder / f"cocobu_box/{id_}", own.boxes)
    return f"npz:{folder / 'cocobu_att'}"


def mcan(folder: Path, seen: Mapping[int, Seen]) -> str:
    """(F, R), as MCAN's were; beside them `info`, which is a pickle."""
    inner = folder / "val2014"
    inner.mkdir()
    for id_, own in seen.items():
        np.savez(
            inner / f"{file_name(id_)}.npz",
            x=own.features.T,
            bbox=own.boxes,
            num_bbox=len(own.boxes),
            image_w=WIDTH,
            image_h=HEIGHT,
            info=np.array({"objects_id": [1]}, dtype=object),
        )
    return f"npz:{folder}"


def grid_npy(folder: Path, seen: Mapping[int, Seen]) -> str:
    """(R, 1, F): without boxes."""
    for id_, own in seen.items():
        np.save(folder / f"{id_}.npy", own.features[:, None])
    return f"npz:{folder}"


def _b64(array: Array) -> str:
    return base64.b64encode(array.astype(np.float32).tobytes()).decode()


def tsv(folder: Path, seen: Mapping[int, Seen]) -> str:
    with (folder / "karpathy_val_resnet101_faster_rcnn_genome.tsv").open("w") as file:
        for id_, own in seen.items():
            cells = [id_, WIDTH, HEIGHT, len(own.boxes), _b64(own.boxes), _b64(own.features)]
            file.write("\t".join(map(str, cells)) + "\r\n")
    return f"tsv:{folder}"


def lxmert(folder: Path, seen: Mapping[int, Seen]) -> str:
    path = folder / "val2014_obj36.tsv"
    with path.open("w") as file:
        for id_, own in seen.items():
            classes = [_b64(np.ones(len(own.boxes)))] * 4
            name, count = file_name(id_).removesuffix(".jpg"), len(own.boxes)
            cells = [name, HEIGHT, WIDTH, *classes, count, _b64(own.boxes), _b64(own.features)]
            file.write("\t".join(map(str, cells)) + "\n")
    return f"tsv:{path}"


def m2(folder: Path, seen: Mapping[int, Seen]) -> str:
    h5py: Any = __import__("h5py")
    with h5py.File(folder / "coco_detections.hdf5", "w") as file:
        for id_, own in seen.items():
            file[f"{id_}_features"], file[f"{id_}_boxes"] = own.features, own.boxes
            file[f"{id_}_cls_prob"] = np.ones((len(own.boxes), 3), np.float32)
            file[f"{id_}_grids"] = np.zeros((49, 2 * DIM), np.float32)
    return f"hdf5:{folder / 'coco_detections.hdf5'}"


def dlct(folder: Path, seen: Mapping[int, Seen]) -> str:
    """As M2's, with the height and the width of each image."""
    name = m2(folder, seen)
    h5py: Any = __import__("h5py")
    with h5py.File(folder / "coco_detections.hdf5", "a") as file:
        for id_ in seen:
            file[f"{id_}_size"] = np.array([[HEIGHT, WIDTH]])
    return name


def groups(folder: Path, seen: Mapping[int, Seen]) -> str:
    h5py: Any = __import__("h5py")
    with h5py.File(folder / "val2014_obj36.h5", "w") as file:
        for id_, own in seen.items():
            group = file.create_group(file_name(id_).removesuffix(".jpg"))
            group["features"], group["boxes"] = own.features, own.boxes
            group["img_w"], group["img_h"] = WIDTH, HEIGHT
            group["obj_id"] = np.ones(len(own.boxes))
    return f"hdf5:{folder}"


def rows(folder: Path, seen: Mapping[int, Seen]) -> str:
    """All end to end; which row is whose is in a pickle of numbers."""
    h5py: Any = __import__("h5py")
    ends = np.cumsum([len(own.boxes) for own in seen.values()])
    with h5py.File(folder / "val.hdf5", "w") as file:
        file["image_features"] = np.concatenate([own.features for own in seen.values()])
        file["image_bb"] = np.concatenate([own.boxes for own in seen.values()])
        corners = np.concatenate([own.shares for own in seen.values()])
        sides = corners[:, 2:] - corners[:, :2]
        file["spatial_features"] = np.concatenate((corners, sides), 1)
        file["pos_boxes"] = np.stack((np.concatenate(([0], ends[:-1])), ends), 1)
    (folder / "val_imgid2idx.pkl").write_bytes(
        pickle.dumps({id_: row for row, id_ in enumerate(seen)}, 2)
    )
    return f"hdf5:{folder / 'val.hdf5'}"


def vilbert(folder: Path, seen: Mapping[int, Seen]) -> str:
    """Values are pickles of what the TSV has; `keys` lists them."""

    def value(id_: int, own: Seen) -> bytes:
        fields = {
            "image_id": str(id_),
            "image_h": str(HEIGHT),
            "image_w": WIDTH,
            "num_boxes": len(own.boxes),
            "boxes": _b64(own.boxes).encode(),
            "features": _b64(own.features).encode(),
        }
        return pickle.dumps(fields)

    entries = {str(id_).encode(): value(id_, own) for id_, own in seen.items()}
    return lmdb_of(folder / "feats.lmdb", {**entries, b"keys": pickle.dumps(list(entries))})


def lmdb_of(folder: Path, entries: Mapping[bytes, bytes]) -> str:
    lmdb: Any = __import__("lmdb")
    with lmdb.open(str(folder), map_size=2**22) as database, database.begin(write=True) as writing:
        for key, value in entries.items():
            writing.put(key, value)
    return f"lmdb:{folder}"


def uniter(folder: Path, seen: Mapping[int, Seen]) -> str:
    """Maps of msgpack, their arrays as msgpack-numpy writes them; seven numbers for a box."""
    msgpack: Any = __import__("msgpack")

    def array(values: Array) -> dict[bytes, Any]:
        return {
            b"nd": True,
            b"type": values.dtype.str,
            b"kind": b"",
            b"shape": values.shape,
            b"data": values.tobytes(),
        }

    def value(own: Seen) -> bytes:
        sides = own.shares[:, 2:] - own.shares[:, :2]
        shares = np.concatenate((own.shares, sides, sides[:, :1] * sides[:, 1:]), 1)
        fields = {"features": array(own.features.astype(np.float16)), "norm_bb": array(shares)}
        return bytes(msgpack.dumps(fields, use_bin_type=True))

    entries = {f"coco_val2014_{id_:012d}.npz".encode(): value(own) for id_, own in seen.items()}
    return lmdb_of(folder / "all.db", entries)


def packed_lmdb(folder: Path, seen: Mapping[int, Seen]) -> str:
    """UNITER's other kind: whole .npz files."""

    def value(own: Seen) -> bytes:
        file = io.BytesIO()
        np.savez_compressed(file, features=own.features, norm_bb=own.shares)
        return file.getvalue()

    return lmdb_of(folder / "db", {str(id_).encode(): value(own) for id_, own in seen.items()})


def tar(folder: Path, seen: Mapping[int, Seen]) -> str:
    """As WebDataset has it, in two tars."""
    for part in range(2):
        with tarfile.open(folder / f"grids-{part:05d}.tar", "w") as archive:
            for id_, own in list(seen.items())[part::2]:
                members = {
                    "npy": _npy(own.features),
                    "box.npy": _npy(own.boxes),
                    "json": json.dumps({"width": WIDTH, "height": HEIGHT}).encode(),
                    "txt": b"A dog.",
                }
                for ending, data in members.items():
                    info = tarfile.TarInfo(f"{id_:012d}.{ending}")
                    info.size = len(data)
                    archive.addfile(info, io.BytesIO(data))
    return f"tar:{folder}"


def _npy(array: Array) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def _lists(seen: Mapping[int, Seen]) -> Any:
    pa: Any = __import__("pyarrow")
    row = pa.list_(pa.float32(), DIM)
    return pa.table(
        {
            "image_id": list(seen),
            "features": pa.array([own.features.tolist() for own in seen.values()], pa.list_(row)),
            "boxes": [own.boxes.tolist() for own in seen.values()],
            "width": [WIDTH] * len(seen),
            "height": [HEIGHT] * len(seen),
        }
    )


def parquet(folder: Path, seen: Mapping[int, Seen]) -> str:
    __import__("pyarrow.parquet")
    pa: Any = __import__("pyarrow")
    pa.parquet.write_table(_lists(seen), folder / "clip.parquet", row_group_size=4)
    return f"arrow:{folder}"


def arrow(folder: Path, seen: Mapping[int, Seen]) -> str:
    """A stream, as some libraries write it, of bytes and shapes."""
    pa: Any = __import__("pyarrow")
    table = pa.table(
        {
            "key": [file_name(id_) for id_ in seen],
            "features": [own.features.astype("<f2").tobytes() for own in seen.values()],
            "shape": [list(own.features.shape) for own in seen.values()],
        }
    )
    with (
        pa.OSFile(str(folder / "clip.arrow"), "wb") as file,
        pa.ipc.new_stream(file, table.schema) as stream,
    ):
        stream.write_table(table)
    return f"arrow:{folder / 'clip.arrow'}"


Writer = Callable[[Path, Mapping[int, Seen]], str]
BOXED: tuple[Writer, ...] = (
    att, mcan, tsv, lxmert, m2, dlct, groups, rows, vilbert, uniter, packed_lmdb, tar, parquet
)  # fmt: skip
UNBOXED: tuple[Writer, ...] = (grid_npy, arrow)
NEED_SIZES = (att, m2)  # their boxes are in pixels, and nothing else in them tells of how many
