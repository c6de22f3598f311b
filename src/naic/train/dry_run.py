"""What a run would do, found out without writing anything."""

from naic.device import choose_device
from naic.train import checkpoint
from naic.train.inputs import find_inputs
from naic.train.settings import Settings
from naic.train.setup import check_cards, check_folder, check_processes


def dry_run(settings: Settings, nproc: int, *, resume: bool) -> list[tuple[str, str]]:
    """Lines for people: a name, and what there is to say of it."""
    run = settings.run
    device = choose_device(settings.engine.device).type
    check_cards(device, nproc)
    check_processes(settings, device, nproc)
    found = find_inputs(settings)
    weights = sum(p.numel() for p in found.model.parameters())
    check_folder(found, resume=resume)
    last = checkpoint.latest(settings.out)
    processes = "1 process" if nproc == 1 else f"{nproc} processes"
    epochs = "1 epoch" if run.epochs == 1 else f"{run.epochs:g} epochs"
    learnt = f"{len(found.targets):,} images, {found.targets.captions:,} captions"
    lines = [
        ("stage", f"{settings.stage} of a {settings.captioner} captioner"),
        ("features", found.store.describe()),
        ("learns from", learnt),
        *(("pseudo", f"{store.folder}: {store.describe()}") for store in found.pseudo),
        ("validates", f"{len(found.validation):,} images"),
        ("vocabulary", f"{len(found.vocabulary):,} words"),
        ("model", f"{weights:,} parameters"),
        ("steps", f"{found.steps:,} of {run.batch} images on {processes}, {epochs}"),
        ("folder", f"{settings.out}" + (f", on from {last.name}" if last else "")),
    ]
    if found.start:
        lines.insert(1, ("start", found.start))
    return lines
