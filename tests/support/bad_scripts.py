"""Bad input of the scripts: the command, and what is said.

Each row: a name, the script and its arguments, and a pattern of the message.
{f} stands for the folder of `bad_files.make`. No file of it may change, and
none may come into being.
"""

from tests.support.bad_files import TINY

TRAIN = ["train", *TINY, "--workdir={f}/new"]
SMALL = ["train", *TINY, "--train_examples=20", "--batch_size=10"]
FILE = [*SMALL, "--workdir={f}/new"]
ARTEFACT = [
    *("evaluate", "--source={f}/good.keras", "--dataset={f}/good.npz"),
    *("--epsilon=0.1", "--attacks=fgsm"),
]
MODEL = ["evaluate", "--model={f}/good.keras", "--dataset={f}/good.npz"]


def on(script, workdir, *more):
    return [script, f"--workdir={{f}}/{workdir}", *more]


ROWS = {
    # Flags of training.
    "epsilon 0": ([*TRAIN, "--epsilon=0"], "An epsilon of 0"),
    "epsilon below 0": (
        [*TRAIN, "--epsilon=-0.1"],
        "--epsilon must be at least 0. Received: -0.1",
    ),
    "epsilon that is no number": (
        [*TRAIN, "--epsilon=nan"],
        "--epsilon must be finite. Received: nan",
    ),
    "a norm beside the radius of a flagfile": (
        ["train", "--flagfile=digits/adt_exp", "--norm=l2", "--workdir={f}/n"],
        "--norm=l2 needs --epsilon after --flagfile",
    ),
    "a rate that is no number": (
        [*TRAIN, "--learning_rate=nan"],
        "--learning_rate must be finite. Received: nan",
    ),
    "a rate without end": (
        [*TRAIN, "--learning_rate=inf"],
        "--learning_rate must be finite. Received: inf",
    ),
    "an unknown data set": (
        [*TRAIN, "--dataset=imaginary"],
        "There is no data set 'imaginary'",
    ),
    "no such .npz file": (
        [*TRAIN, "--dataset=none.npz"],
        "There is no such file",
    ),
    "an unknown method": ([*TRAIN, "--method=at_pdg"], "name='at_pdg'"),
    "an argument of another method": (
        [*TRAIN, "--num_samples=3"],
        "does not take",
    ),
    "an unknown network": ([*TRAIN, "--network=vgg"], "vgg"),
    "drops that are no numbers": (
        [*TRAIN, "--drop_after=soon"],
        "--drop_after must be whole numbers",
    ),
    "drops out of order": (
        [*TRAIN, "--drop_after=2,1"],
        "increasing epochs",
    ),
    "two half formats": (
        [
            *TRAIN,
            "--search_precision=bfloat16",
            "--precision=mixed_float16",
        ],
        "cannot be combined with --precision=mixed_float16",
    ),
    "a step of size 0": (
        [*TRAIN, "--step_size=0"],
        "--step_size must be above 0",
    ),
    "no step at all": (
        [*TRAIN, "--num_steps=0"],
        "--num_steps must be at least 1",
    ),
    "a negative rate": (
        [*TRAIN, "--learning_rate=-1"],
        "--learning_rate must be at least 0",
    ),
    "a negative weight decay": (
        [*TRAIN, "--weight_decay=-1"],
        "--weight_decay must be at least 0",
    ),
    "a negative warm-up": (
        [*TRAIN, "--epsilon_warmup=-1"],
        "--epsilon_warmup must be at least 0",
    ),
    "a weight perturbation below 0": (
        [*TRAIN, "--awp_size=-0.1"],
        "--awp_size must be at least 0. Received: -0.1",
    ),
    "a warm-up of no weight perturbation": (
        [*TRAIN, "--awp_warmup=3"],
        "--awp_warmup requires --awp_size",
    ),
    "an average of momentum 1": (
        [*TRAIN, "--ema_momentum=1"],
        "--ema_momentum must be below 1. Received: 1.0",
    ),
    "labels smoothed away": (
        [*TRAIN, "--label_smoothing=1"],
        "--label_smoothing must be below 1. Received: 1.0",
    ),
    "a temperature of 0": (
        [*TRAIN, "--outer_samples=2", "--sample_temperature=0"],
        "--sample_temperature must be above 0",
    ),
    "a temperature for one sample": (
        [*TRAIN, "--sample_temperature=1"],
        "requires --outer_samples above 1",
    ),
    "an unknown schedule": (
        [*TRAIN, "--schedule=linear"],
        "--schedule must be one of steps, cosine, one_cycle. Received: linear",
    ),
    "drops of a cosine": (
        [*TRAIN, "--schedule=cosine", "--drop_after=1"],
        "--drop_after requires --schedule=steps",
    ),
    "a warm-up of the rate without end": (
        [*TRAIN, "--rate_warmup=2"],
        "--rate_warmup must be below --epochs=2. Received: 2",
    ),
    "an unknown optimiser": (
        [*TRAIN, "--optimizer=lion"],
        "--optimizer must be one of sgd, adamw. Received: lion",
    ),
    "gradients clipped to 0": (
        [*TRAIN, "--clip_norm=0"],
        "--clip_norm must be above 0",
    ),
    "clipping on several devices": (
        [*TRAIN, "--clip_norm=1", "--distribute=mirrored"],
        "--clip_norm would clip the gradient of each device",
    ),
    "an unknown activation": (
        [*TRAIN, "--activation=step"],
        "--activation must be one of relu, silu. Received: step",
    ),
    "an activation of keras.applications": (
        [*TRAIN, "--activation=silu", "--network=keras:MobileNetV2"],
        "--activation requires a network of adt_tf",
    ),
    "a square of -1 pixels": (
        [*TRAIN, "--cutout=-1"],
        "--cutout must be at least 0. Received: -1",
    ),
    "more than all images mixed": (
        [*TRAIN, "--cutmix=1.5"],
        "--cutmix must be at most 1. Received: 1.5",
    ),
    "random operations of no strength": (
        [*TRAIN, "--randaugment=-0.1"],
        "--randaugment must be at least 0. Received: -0.1",
    ),
    "noise of a negative radius": (
        [*TRAIN, "--method=n_fgsm", "--noise_share=-1"],
        "--noise_share must be at least 0. Received: -1.0",
    ),
    "noise in another method": (
        [*TRAIN, "--noise_share=2"],
        "does not take noise_share",
    ),
    "a share of no extra data": (
        [*TRAIN, "--extra_fraction=0.7"],
        "--extra_fraction requires --extra_data",
    ),
    "extra data without a share": (
        [*TRAIN, "--extra_data={f}/extra.npz"],
        "--extra_data requires --extra_fraction",
    ),
    "a batch of extra data alone": (
        [*TRAIN, "--extra_data={f}/extra.npz", "--extra_fraction=0.999"],
        "leave room for both kinds of data in a batch of 64",
    ),
    "extra data that are not there": (
        [*TRAIN, "--extra_data={f}/none.npz", "--extra_fraction=0.5"],
        "There is no such file",
    ),
    "extra data that are damaged": (
        [*TRAIN, "--extra_data={f}/cut.npz", "--extra_fraction=0.5"],
        "Cannot read .*cut.npz.: it is not an .npz file",
    ),
    "extra data with other keys": (
        [*TRAIN, "--extra_data={f}/good.npz", "--extra_fraction=0.5"],
        "must have the arrays image and label, but has images, labels",
    ),
    "extra data of another shape": (
        [*TRAIN, "--extra_data={f}/extra_shape.npz", "--extra_fraction=0.5"],
        r"must have the shape \(8, 8, 1\) of the images of digits. Received",
    ),
    "extra data of other classes": (
        [*TRAIN, "--extra_data={f}/extra_classes.npz", "--extra_fraction=0.5"],
        "Labels must be in 0 .. 9",
    ),
    "too few extra data": (
        [*TRAIN, "--extra_data={f}/extra_few.npz", "--extra_fraction=0.5"],
        "need at most 3 extra examples in a batch",
    ),
    "the best of nothing": (
        [*TRAIN, "--keep_best"],
        "--validation_examples=1000",
    ),
    "saving every -1 steps": (
        [*TRAIN, "--checkpoint_steps=-1"],
        "--checkpoint_steps must be at least 0",
    ),
    "keeping no checkpoint": (
        [*TRAIN, "--keep_checkpoints=0"],
        "--keep_checkpoints must be at least 1",
    ),
    "another way with what is not finite": (
        [*TRAIN, "--on_nonfinite=hope"],
        "--on_nonfinite must be one of stop, rollback. Received: hope",
    ),
    "no epoch": ([*TRAIN, "--epochs=0"], "--epochs must be at least 1"),
    "a batch of 0": (
        [*TRAIN, "--batch_size=0"],
        "--batch_size must be at least 1",
    ),
    "a batch larger than the data": ([*TRAIN, "--batch_size=500"], "500"),
    "no training example": (
        [*TRAIN, "--train_examples=0"],
        "--train_examples must be at least 1",
    ),
    "a choice that is none": (
        [*TRAIN, "--entropy_reduction=max"],
        "--entropy_reduction must be one of mean, sum. Received: max",
    ),
    "an unknown flag": (
        [*TRAIN, "--epsilom=0.1"],
        "Unknown command line flag",
    ),
    "text for a number": (
        [*TRAIN, "--epsilon=big"],
        "--epsilon must be a number. Received: big",
    ),
    "a word without a flag": ([*TRAIN, "digits"], "Too many arguments"),
    "no workdir": (["train", *TINY], "--workdir is required"),
    "a flagfile of another version": (
        [*TRAIN, "--flagfile={f}/other.flags"],
        "Unknown command line flag 'frobnicate'",
    ),
    "a flagfile that is not there": (
        [*TRAIN, "--flagfile={f}/none.flags"],
        "There is no flagfile .*none.flags",
    ),
    "a flagfile that names one that is not there": (
        [*TRAIN, "--flagfile={f}/dangling.flags"],
        "no flagfile gone.flags, which .*dangling.flags includes",
    ),
    "flagfiles that include each other": (
        [*TRAIN, "--flagfile={f}/circle.flags"],
        "include each other: .*circle.flags -> .*round.flags -> .*circle.flags",
    ),
    "a flagfile that is no text": (
        [*TRAIN, "--flagfile={f}/binary/flags.txt"],
        "binary/flags.txt is not a text file",
    ),
    "a flagfile that is a folder": (
        [*TRAIN, "--flagfile={f}"],
        "There is no flagfile",
    ),
    # Files of images.
    "pixels out of range": ([*FILE, "--dataset={f}/range.npz"], r"in \[0, 1\]"),
    "pixels that are NaN": ([*FILE, "--dataset={f}/nan.npz"], "finite"),
    "labels below 0": ([*FILE, "--dataset={f}/below.npz"], "Labels must be"),
    "one-hot labels": ([*FILE, "--dataset={f}/onehot.npz"], "argmax"),
    "no image": ([*FILE, "--dataset={f}/nothing.npz"], "empty"),
    "other names of arrays": (
        [*FILE, "--dataset={f}/keys.npz"],
        "images and labels",
    ),
    "a pickle for labels": ([*FILE, "--dataset={f}/pickle.npz"], "pickle"),
    "a file cut off": ([*FILE, "--dataset={f}/cut.npz"], "Cannot read"),
    "a truncated TFRecord": (
        [*FILE, "--dataset=cut", "--data_dir={f}/tfds"],
        "Cannot read .*beyond example",
    ),
    "a damaged TFRecord": (
        [*FILE, "--dataset=flipped", "--data_dir={f}/tfds"],
        "Cannot read .*beyond example",
    ),
    "a data_dir that is a file": (
        [*FILE, "--dataset=cifar10", "--data_dir={f}/file"],
        "There is no data set 'cifar10'",
    ),
    # Workdirs.
    "a workdir in a file": ([*SMALL, "--workdir={f}/file/run"], "file"),
    "a workdir that is a file": ([*SMALL, "--workdir={f}/file"], "file"),
    "a folder with other files": (
        [*SMALL, "--workdir={f}/full"],
        "is not empty and is not the workdir of a run",
    ),
    "the workdir of another run": (
        [*SMALL, "--workdir={f}/run"],
        "holds another configuration.*--batch_size=10",
    ),
    "flags.txt that is no text": (
        [*SMALL, "--workdir={f}/binary"],
        "binary/flags.txt is not a text file",
    ),
    "to evaluate no workdir": (
        on("evaluate", "full"),
        "is not the workdir of a run",
    ),
    "to export no workdir": (
        on("export", "full"),
        "is not the workdir of a run",
    ),
    "to lint no workdir": (on("lint", "full"), "is not the workdir of a run"),
    "to evaluate an unfinished run": (
        on("evaluate", "unfinished"),
        "the run has not finished",
    ),
    "to export an unfinished run": (
        on("export", "unfinished"),
        "the run has not finished",
    ),
    "a workdir of another version": (
        on("evaluate", "other version"),
        "--frobnicate=1 is not a flag of a training run",
    ),
    "a workdir with a spoiled flag": (
        on("evaluate", "no number"),
        "no number/flags.txt: --epochs must be a whole number. Received: many",
    ),
    "a workdir that says where to write": (
        on("export", "hostile"),
        "--output=.* is not a flag of a training run",
    ),
    "probabilities of a run": (
        on("evaluate", "full", "--probabilities"),
        "--probabilities needs --model: .* Remove --probabilities",
    ),
    "a damaged classifier": (on("evaluate", "damaged"), "Cannot load"),
    "to export a damaged classifier": (on("export", "damaged"), "Cannot load"),
    "a flag of training in an evaluation": (
        on("evaluate", "run", "--num_steps=50"),
        "--num_steps is a flag of training",
    ),
    "an export over a file": (
        on("export", "run", "--output={f}/file"),
        "nothing is overwritten",
    ),
    "an export over a SavedModel": (
        on("export", "run", "--output={f}/one batch"),
        "nothing is overwritten",
    ),
    "an export for an unknown runtime": (
        on("export", "run", "--runtimes=tensorrt"),
        "A runtime must be one of onnx, litert",
    ),
    "an export with an evaluation that is not there": (
        on("export", "run", "--evaluations={f}/none.json"),
        "none.json does not exist",
    ),
    # Artefacts.
    "an artefact without its source": (
        ["evaluate", "--artifact={f}/text.tflite", "--dataset={f}/good.npz"],
        "--artifact needs either --source",
    ),
    "an artefact and a model": (
        [*ARTEFACT, "--artifact={f}/text.tflite", "--model={f}/good.keras"],
        "--artifact cannot be combined with --model",
    ),
    "an artefact that is a Keras model": (
        [*ARTEFACT, "--artifact={f}/good.keras"],
        "An artefact must be a SavedModel, or a file that ends in",
    ),
    "an artefact that is not there": (
        [*ARTEFACT, "--artifact={f}/none.tflite"],
        "must be a file that ends in .*none.tflite",
    ),
    "a file that is no TFLite": (
        [*ARTEFACT, "--artifact={f}/text.tflite"],
        "Cannot load .*text.tflite in LiteRT",
    ),
    "a TFLite file that is cut": (
        [*ARTEFACT, "--artifact={f}/cut.tflite"],
        "Cannot load .*cut.tflite in LiteRT",
    ),
    "an artefact of other classes": (
        [*ARTEFACT, "--artifact={f}/three classes.tflite"],
        "must give 10 logits, one for each class .* It gives: 3",
    ),
    "an artefact for other images": (
        [*ARTEFACT, "--artifact={f}/small images.tflite"],
        "must take images of shape .* It takes: .4, 4, 1.",
    ),
    "an artefact within some minutes": (
        [*ARTEFACT, "--artifact={f}/text.tflite", "--minutes=1"],
        "--artifact cannot be combined with --minutes",
    ),
    "distributions on an artefact": (
        [*ARTEFACT, "--artifact={f}/text.tflite", "--distributions=exp"],
        "--artifact cannot be combined with --distributions",
    ),
    "an artefact without an attack": (
        [*ARTEFACT, "--artifact={f}/text.tflite", "--attacks="],
        "--attacks must name an attack",
    ),
    "a comparison with a model": (
        ["evaluate", "--compare", "{f}/a", "{f}/b", "--workdir={f}/run"],
        "--compare accepts no other flags than --protocol. Received: --workdir",
    ),
    # Evaluations.
    "neither workdir nor model": (
        ["evaluate"],
        "exactly one of --workdir",
    ),
    "workdir and model": (
        on("evaluate", "run", "--model={f}/good.keras"),
        "exactly one of --workdir",
    ),
    "a flag of training for a model": (
        [*MODEL, "--num_steps=500"],
        "--num_steps is a flag of training",
    ),
    "a flag of training for checks of a model": (
        ["lint", *MODEL[1:], "--train_examples=5"],
        "--train_examples is a flag of training",
    ),
    "a result that is no .json file": (
        [*MODEL, "--attacks=fgsm", "--output={f}/result.csv"],
        "must end in .json",
    ),
    "an unknown protocol": ([*MODEL, "--protocol=nope"], "must be one of"),
    "a path for a protocol": (
        [*MODEL, "--protocol=../../other"],
        "must be one of",
    ),
    "a transfer from nothing": (
        [*MODEL, "--protocol=transfer"],
        "needs --source",
    ),
    "an unknown attack": (
        [*MODEL, "--attacks=pdg-20"],
        "Received: name='pdg-20'",
    ),
    "steps of FGSM": ([*MODEL, "--attacks=fgsm-7"], "Received: name="),
    "epsilon 2": (
        [*MODEL, "--attacks=fgsm", "--epsilon=2"],
        "`epsilon` must be",
    ),
    "a stray word": ([*MODEL, "stray"], "Arguments without a flag"),
    "a model without a data set": (
        ["evaluate", "--model={f}/good.keras", "--attacks=fgsm"],
        "--model needs --dataset",
    ),
    "no such model": (
        [
            "evaluate",
            "--model={f}/none.keras",
            "--dataset={f}/good.npz",
            "--attacks=fgsm",
        ],
        "no file or directory .*none.keras",
    ),
    "a model with code": (
        [
            "evaluate",
            "--model={f}/lambda.keras",
            "--dataset={f}/good.npz",
            "--attacks=fgsm",
        ],
        "Cannot load .*safe mode",
    ),
    "no test example": (
        [*MODEL, "--attacks=fgsm", "--test_examples=0"],
        "`num_examples` must be an integer of at least 1",
    ),
    "evaluation batches of 0": (
        [*MODEL, "--attacks=fgsm", "--eval_batch_size=0"],
        "batch_size=0",
    ),
    "images of another size": (
        [
            "evaluate",
            "--model={f}/good.keras",
            "--dataset=fewer",
            "--data_dir={f}/tfds",
            "--attacks=fgsm",
        ],
        r"takes images of shape \(8, 8, 1\). Received: images of shape "
        r"\(4, 4, 3\)",
    ),
    "a comparison with nothing": (
        ["evaluate", "--compare={f}/other seed.json"],
        "takes two",
    ),
    "a comparison with half a file": (
        ["evaluate", "--compare", "{f}/other seed.json", "{f}/half.json"],
        "half.json",
    ),
    "an evaluation over one at another epsilon": (
        on("evaluate", "run", "--epsilon=0.1", "--attacks=fgsm"),
        "linf epsilon 0.15, and .* 0.1, so nothing was overwritten. Add --out",
    ),
    "a comparison across epsilons": (
        ["evaluate", "--compare", "{f}/run", "{f}/other epsilon.json"],
        "differ in their epsilon",
    ),
    "a comparison across seeds": (
        ["evaluate", "--compare", "{f}/run", "{f}/other seed.json"],
        "seeds 0 and 7",
    ),
    "a spoiled evaluation": (
        ["evaluate", "--compare", "{f}/run", "{f}/spoiled"],
        "spoiled/evaluation.json is not a JSON file",
    ),
    # Reports and checks.
    "a report on a spoiled evaluation": (
        ["report", "--workdirs={f}/spoiled", "--output={f}/new"],
        "is not a JSON file",
    ),
    "a report on no evaluation": (
        ["report", "--workdirs={f}/full", "--output={f}/new"],
        "adt-evaluate --model=FILE",
    ),
    "a report on a model": (
        ["report", "--workdirs={f}/good.keras", "--output={f}/new"],
        "measure it: adt-evaluate --model=.*good.keras",
    ),
    "a report on one run twice": (
        ["report", "--workdirs={f}/run,{f}/run", "--output={f}/new"],
        "each once",
    ),
    "a path for a report's protocol": (
        ["report", "--workdirs={f}/run", "--output={f}/new", "--protocol=../x"],
        "must be a name, not a path",
    ),
    "a report of 0 images": (
        ["report", "--workdirs={f}/run", "--output={f}/new", "--images=0"],
        "images",
    ),
    "checks with epsilon 0": (
        on("lint", "run", "--epsilon=0"),
        "`epsilon` must be above 0",
    ),
}

#: Run as real processes too.
REAL = (
    "an unknown flag",
    "a truncated TFRecord",
    "a damaged classifier",
    "the workdir of another run",
)
