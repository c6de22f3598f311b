"""What a training run can be told: frozen dataclasses, one for each table of its TOML file."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from naic.data.features import View
from naic.learn.schedules import Schedule

LIMITS: dict[tuple[float, float], tuple[str, ...]] = {  # from, to (both allowed): which numbers
    (0, 0.9999999): ("optimiser.beta1", "optimiser.beta2", "optimiser.average"),
    (0, 0.9): ("xe.smoothing",),
    (0, 1): (
        "guard.fraction",
        "optimiser.backbone_rate",
        "optimiser.block_rate",
        "xe.glance",
    ),
    (0, 10): ("optimiser.weight_decay",),
    (0, 1e6): (
        "guard.from_epoch",
        "scst.cider",
        "scst.bleu4",
        "cmal.entropy",
        "cmal.xe",
        "cmal.cider",
        "cmal.bleu4",
        "cmal.kl",
        "cmal.loose_ends",
    ),
    (0, 1000): ("xe.words",),
    (0, 1e9): ("optimiser.frozen_steps", "data.more_than", "optimiser.clip", "validation.limit"),
    (0, 2**63 - 1): ("seed",),
    (1e-20, 1): ("optimiser.epsilon",),
    (0.1, 100): ("cmal.temperature",),
    (1e-6, 1e6): ("run.epochs", "run.validate_every", "run.save_every"),
    (1, 100): ("validation.beam",),
    (0.01, 10_000): ("engine.patience",),
    (1, 1000): ("data.captions", "scst.samples", "cmal.samples"),
    (1, 16_383): ("cmal.topk",),
    (1, 10**6): ("run.batch", "run.accumulate", "validation.batch", "data.spread"),
    (1, 10**9): ("run.log_every",),
}
STAGE_NAMES = ("teacher_xe", "scst", "student_xe", "cmal")  # for help, which needs no torch
Baseline = Literal["none", "ma", "sc", "loo", "cf"]  # of cmal


@dataclass(frozen=True)
class DataSettings:
    """What is learnt from.

    Attributes:
        features: The feature store, made by `naic prepare`.
        train: The splits to learn from; df and a new vocabulary are counted over their captions.
        validation: The splits that decide which checkpoint is the best.
        captions: Captions of an image in one step; the encoder runs once for all of them.
        vocabulary: A vocab.json; without it the start model's, or a new one from the captions.
        more_than: Words seen more often than this in the training captions are known.
        keep: Where the features lie during training; "host" reads them from the store.
        spread: Parts that the images are cut into; a step takes equally many of each, so that as
            many processes hold, and read, the features of a part each.
        pseudo: Stores made by `naic distil`: their captions of their images are learnt instead of
            the human ones. `train` still says what df and a new vocabulary come from. With cmal
            they are what `cmal.xe` holds on to; rewards are for the human captions of `train`.
        unlabelled: Further feature stores, whose images are learnt from by pseudo captions only.
        views: Learn only from these views of the images: "first", "mirrored", "cropped" (`naic
            prepare --mirror`, `--crop`); empty: from all there are.
    """

    features: Path
    train: tuple[str, ...] = ("train",)
    validation: tuple[str, ...] = ("val",)
    captions: int = 5
    vocabulary: Path | None = None
    more_than: int = 5
    keep: Literal["device", "host"] = "device"
    spread: int = 1
    pseudo: tuple[Path, ...] = ()
    unlabelled: tuple[Path, ...] = ()
    views: tuple[View, ...] = ()


@dataclass(frozen=True)
class OptimiserSettings:
    """Adam, as in the paper.

    Attributes:
        beta1: Decay of the mean of the gradients.
        beta2: Decay of the mean of their squares.
        epsilon: Added to the root of the latter.
        weight_decay: Share of a weight that is taken off in a step, times the learning rate.
        clip: Gradients are shortened to this norm; 0 leaves them as they are.
        average: Decay of the moving average of the weights that is validated and kept; 0: none.
        backbone_rate: Learning rate of a backbone inside the model, as a share of that of the rest.
        block_rate: Learning rate of a block of the backbone, as a share of the block's after it.
        frozen_steps: Steps at the start in which the backbone stays as it is.
        frozen: Parts of the model that stay as they are, such as "encoder", without dropout.
    """

    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-9
    weight_decay: float = 0.0
    clip: float = 1.0
    average: float = 0.0
    backbone_rate: float = 0.1
    block_rate: float = 1.0
    frozen_steps: int = 0
    frozen: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunSettings:
    """How long, how much at once, and how often to look.

    Attributes:
        epochs: How often each image is learnt from; fractions are fine.
        batch: Images in a step, over all processes and parts: what is learnt does not depend on
            how many processes share the work.
        accumulate: Parts that each process cuts its share into, to save memory; more by itself
            where a run goes on with fewer processes.
        log_every: Steps between two lines of metrics.jsonl.
        validate_every: Epochs between two validations.
        save_every: Epochs between two checkpoints.
    """

    epochs: float = 15.0
    batch: int = 50
    accumulate: int = 1
    log_every: int = 50
    validate_every: float = 1.0
    save_every: float = 1.0


@dataclass(frozen=True)
class EngineSettings:
    """How the step is run. None of it changes what is learnt, but for rounding.

    Attributes:
        device: auto, cpu or cuda; CUDA_VISIBLE_DEVICES chooses among cards.
        precision: "bfloat16" is mixed precision; "tf32" rounds inside matrix products (NVIDIA).
        compile: Layers and losses through torch.compile.
        graph: The whole step, optimiser included, as one CUDA graph; one process only.
        patience: Minutes that processes wait for one that is silent; a save must not take longer.
    """

    device: str = "auto"
    precision: Literal["float32", "tf32", "bfloat16"] = "float32"
    compile: bool = False
    graph: bool = False
    patience: float = 30.0


@dataclass(frozen=True)
class ValidationSettings:
    """How captions are made to be scored.

    Attributes:
        beam: Beam width of the validations during the run.
        report: Beam widths of the captions that are written at the end, by the best weights.
        batch: Images at once.
        limit: The first so many images only; 0: all.
    """

    beam: int = 1
    report: tuple[int, ...] = (1,)
    batch: int = 256
    limit: int = 0


@dataclass(frozen=True)
class GuardSettings:
    """When to give a run up.

    Attributes:
        fraction: Stop when the validation's CIDEr or the reward is below this share of the best
            one seen, twice in a row; 0 never stops.
        from_epoch: Not before this epoch.
    """

    fraction: float = 0.5
    from_epoch: float = 0.0


@dataclass(frozen=True)
class XESettings:
    """Word-level cross-entropy (teacher_xe and student_xe).

    Attributes:
        smoothing: How much of the target's weight goes to all words alike.
        fill: Train the places after the period as periods (student_xe).
        words: Weight of the words by themselves beside the sentence as a whole, whose weight is 1
            (student_xe, with model.transitions); smoothing is for the words.
        glance: Show some agents their target word, and train the others (student_xe): of each
            caption as many words as this share of those that the agents would get wrong.
    """

    smoothing: float = 0.0
    fill: bool = False
    words: float = 0.5
    glance: float = 0.0


@dataclass(frozen=True)
class SCSTSettings:
    """Self-critical training of the teacher (scst).

    Attributes:
        baseline: "greedy" is the caption of beam 1, "loo" the mean reward of the other samples.
        samples: Captions sampled for an image.
        dropout: Keep dropout on while sampling; without, the captions come from the very policy
            that is improved.
        bleu4: Weight of BLEU-4 in the reward, which is 0 to 1 where CIDEr-D is 0 to 10.
        cider: Weight of CIDEr-D in the reward.
        reward: Rewards of your own and their weights, beside these: functions of sentences, as
            { "package.module:function" = 0.5 }.
    """

    baseline: Literal["greedy", "loo"] = "loo"
    samples: int = 5
    dropout: bool = False
    bleu4: float = 0.0
    cider: float = 1.0
    reward: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class CMALSettings:
    """Counterfactuals-critical multi-agent learning of the student (cmal).

    Attributes:
        topk: The paper's k: alternatives of each agent for the baseline "cf".
        baseline: What the reward is compared with. "cf" is the paper's counterfactual one; the
            others are alike for all agents: "none" is 0, "ma" the moving average of the rewards,
            "sc" the reward of everybody's likeliest word, "loo" the mean of the other samples.
        samples: Sentences sampled for an image.
        temperature: The policy whose expected reward is raised is p^(1 / temperature): above 1 it
            tries more than a model that is sure of its sentences would, and what is likeliest stays
            so. The entropy and the KL are those of this policy.
        entropy: Weight of the mean entropy of the agents that speak, in nats, which keeps them
            from being sure too soon.
        xe: Weight of the cross-entropy with the human captions, or with those of `data.pseudo`
            where these are given: an anchor.
        bleu4: Weight of BLEU-4 in the reward, which is 0 to 1 where CIDEr-D is 0 to 10.
        gradient: "sampled" learns from the words that were said, as the paper; "all" from each of
            the topk alternatives too, weighted by the gradient of its probability ("cf" only):
            the same rewards, less noise.
        kl: Weight of KL(π ‖ π_start) of the agents that speak, in nats: an anchor that needs no
            captions. π_start is the start model, frozen, without dropout.
        loose_ends: Taken from the reward of a sentence that ends on a word such as "a" or "with",
            counterfactual ones too; CIDEr-D is 0 to 10.
        cider: Weight of CIDEr-D in the reward.
        reward: Rewards of your own and their weights, beside these: functions of sentences, as
            { "package.module:function" = 0.5 }.
    """

    topk: int = 2
    baseline: Baseline = "cf"
    samples: int = 1
    temperature: float = 1.0
    entropy: float = 0.0
    xe: float = 0.0
    bleu4: float = 0.0
    gradient: Literal["sampled", "all"] = "sampled"
    kl: float = 0.0
    loose_ends: float = 0.0
    cider: float = 1.0
    reward: dict[str, float] = field(default_factory=dict)


RewardSettings = SCSTSettings | CMALSettings  # tables that say what is rewarded


@dataclass(frozen=True)
class Settings:
    """All of a run.

    Attributes:
        stage: How it is trained: teacher_xe and then scst for the teacher, student_xe and then cmal
            for the student.
        out: The run's folder.
        captioner: The kind of model: causal is the teacher, parallel the student.
        start: A model folder whose weights to begin with; its sizes hold where [model] has none.
        seed: Of the first weights, the order of the images and the noise of each step.
        plugins: Modules of yours that bring captioners or backbones; --plugin MODULE adds one.
    """

    stage: str
    out: Path
    captioner: str
    data: DataSettings
    model: dict[str, Any] = field(default_factory=dict)
    start: Path | None = None
    seed: int = 1
    plugins: tuple[str, ...] = ()
    schedule: Schedule = field(default_factory=Schedule)
    optimiser: OptimiserSettings = field(default_factory=OptimiserSettings)
    run: RunSettings = field(default_factory=RunSettings)
    engine: EngineSettings = field(default_factory=EngineSettings)
    validation: ValidationSettings = field(default_factory=ValidationSettings)
    guard: GuardSettings = field(default_factory=GuardSettings)
    xe: XESettings = field(default_factory=XESettings)
    scst: SCSTSettings = field(default_factory=SCSTSettings)
    cmal: CMALSettings = field(default_factory=CMALSettings)
