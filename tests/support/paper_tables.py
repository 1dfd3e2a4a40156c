"""The paper's tables of accuracies, typed from its source as they are printed.

Dong, Deng, Pang, Zhu and Su, Adversarial Distributional Training for Robust
Deep Learning, NeurIPS 2020, arXiv:2002.05999. Numbers are per cent. A model
is written as in this project: the paper's index follows a hyphen ("AT-PGD"),
and its dagger is a plus.
"""

#: "Classification accuracy ... on CIFAR-10 under white-box attacks".
TABLE_1 = """
Model       A_nat  FGSM   PGD-20 PGD-100 MIM    C&W    FeaAttack A_rob
Standard    94.81  12.05  0.00   0.00    0.00   0.00   0.00      0.00
AT-FGSM     93.80  79.86  0.12   0.04    0.06   0.13   0.01      0.01
AT-PGD+     87.25  56.04  45.88  45.33   47.15  46.67  46.01     44.89
AT-PGD      86.91  58.30  50.03  49.40   51.40  50.23  50.46     48.26
ALP         86.81  56.83  48.97  48.60   50.13  49.10  48.51     47.90
FeaScatter  89.98  77.40  70.85  68.81   72.74  58.46  37.45     37.40
ADT-EXP     86.89  60.41  52.18  51.69   53.27  52.49  52.38     50.56
ADT-EXP-AM  87.82  62.42  51.95  51.26   52.99  51.75  52.04     50.04
ADT-IMP-AM  88.00  64.89  52.28  51.23   52.64  52.65  51.89     49.81
"""

#: "... on CIFAR-100 and SVHN under part of white-box attacks".
TABLE_2_CIFAR_100 = """
Model       A_nat  PGD-20 PGD-100 A_rob
Standard    78.59  0.02   0.01    0.00
AT-PGD      61.45  25.71  25.40   24.49
ADT-EXP     62.70  28.96  28.60   27.13
ADT-EXP-AM  62.84  29.01  28.46   26.87
ADT-IMP-AM  64.07  29.40  28.43   26.80
"""
TABLE_2_SVHN = """
Model       A_nat  PGD-20 PGD-100 A_rob
Standard    96.12  3.64   2.95    2.14
AT-PGD      95.07  74.22  73.79   73.38
ADT-EXP     95.70  77.01  76.62   75.55
ADT-EXP-AM  95.67  76.12  75.58   75.00
ADT-IMP-AM  95.62  75.61  74.85   74.13
"""

#: "Accuracy on CIFAR-10 under SPSA attack with different batch sizes".
TABLE_3 = """
Model       SPSA-256 SPSA-512 SPSA-1024 SPSA-2048
Standard    0.00     0.00     0.00      0.00
AT-PGD      60.67    58.10    55.82     54.37
ADT-EXP     62.22    59.94    57.97     56.27
ADT-EXP-AM  62.58    60.12    57.62     55.84
ADT-IMP-AM  62.49    59.77    57.34     55.67
"""

#: "Accuracy on CIFAR-10 under PGD-20, EXP, EXP-AM, and IMP-AM attacks".
TABLE_4 = """
Model       PGD-20 EXP    EXP-AM IMP-AM
Standard    0.00   0.00   9.24   9.83
AT-PGD      50.03  49.97  50.46  50.36
ADT-EXP     52.18  51.96  52.71  52.82
ADT-EXP-AM  51.95  51.62  52.85  52.72
ADT-IMP-AM  52.28  51.46  52.76  52.48
"""

#: "Comparison of ADT with TRADES on CIFAR-10", its two halves by beta.
TABLE_5_BETA_1 = """
Model       A_nat  PGD-20 PGD-100 A_rob
TRADES      87.99  51.08  48.41   47.75
ADT-EXP     89.74  52.39  49.88   49.05
ADT-EXP-AM  88.86  54.44  51.66   50.78
ADT-IMP-AM  88.80  54.22  51.09   50.14
"""
TABLE_5_BETA_6 = """
Model       A_nat  PGD-20 PGD-100 A_rob
TRADES      84.02  56.06  54.49   52.64
ADT-EXP     84.66  57.71  56.17   54.21
ADT-EXP-AM  84.85  57.67  55.73   54.09
ADT-IMP-AM  84.96  57.82  55.45   53.66
"""

#: "Comparison with the state-of-the-art AT-PGD model in [Rice et al.]".
TABLE_6 = """
Model       A_nat  PGD-10 PGD-20 PGD-100
AT-PGD      86.41  55.90  54.52  54.20
ADT-EXP     86.49  56.84  55.43  55.01
ADT-EXP-AM  87.27  56.28  54.88  54.58
ADT-IMP-AM  87.38  56.63  55.10  54.43
"""

#: Table 2 in full.
TABLE_9_CIFAR_100 = """
Model       A_nat  FGSM   PGD-20 PGD-100 MIM    C&W    FeaAttack A_rob
Standard    78.59  8.73   0.02   0.01    0.02   0.00   0.00      0.00
AT-PGD      61.45  30.78  25.71  25.40   26.60  25.80  33.95     24.49
ADT-EXP     62.70  34.22  28.96  28.60   29.83  28.99  35.07     27.13
ADT-EXP-AM  62.84  36.28  29.01  28.46   29.68  28.78  34.91     26.87
ADT-IMP-AM  64.07  39.39  29.40  28.43   29.64  28.76  35.00     26.80
"""
TABLE_9_SVHN = """
Model       A_nat  FGSM   PGD-20 PGD-100 MIM    C&W    FeaAttack A_rob
Standard    96.12  39.05  3.64   2.95    4.08   3.91   2.14      2.14
AT-PGD      95.07  82.19  74.22  73.79   74.56  74.77  73.51     73.38
ADT-EXP     95.70  86.72  77.01  76.62   77.18  77.50  75.64     75.55
ADT-EXP-AM  95.67  85.24  76.12  75.58   76.63  76.70  75.20     75.00
ADT-IMP-AM  95.62  86.73  75.61  74.85   75.91  76.12  74.24     74.13
"""

#: Table 5 in full.
TABLE_10_BETA_1 = """
Model       A_nat  FGSM   PGD-20 PGD-100 MIM    C&W    FeaAttack A_rob
TRADES      87.99  57.67  51.08  48.41   53.32  49.29  51.07     47.75
ADT-EXP     89.74  59.47  52.39  49.88   54.74  50.75  51.29     49.05
ADT-EXP-AM  88.86  62.89  54.44  51.66   56.09  52.33  54.61     50.78
ADT-IMP-AM  88.80  68.35  54.22  51.09   54.95  51.84  54.19     50.14
"""
TABLE_10_BETA_6 = """
Model       A_nat  FGSM   PGD-20 PGD-100 MIM    C&W    FeaAttack A_rob
TRADES      84.02  60.08  56.06  54.49   57.27  53.62  55.18     52.64
ADT-EXP     84.66  61.72  57.71  56.17   58.74  55.16  56.65     54.21
ADT-EXP-AM  84.85  66.09  57.67  55.73   58.38  54.79  58.94     54.09
ADT-IMP-AM  84.96  68.34  57.82  55.45   58.58  54.36  59.01     53.66
"""

#: "Classification Accuracy of L2L, ADT-EXP-AM, and ADT-IMP-AM on CIFAR-10";
#: its models are the columns.
TABLE_11 = """
Model    L2L    ADT-EXP-AM ADT-IMP-AM
A_nat    88.15  87.82      88.00
FGSM     65.50  62.42      64.89
PGD-20   48.55  51.95      52.28
PGD-100  47.14  51.26      51.23
MIM      49.03  52.99      52.64
C&W      49.22  51.75      52.65
"""

#: Sec. 2.2: "The average l2 distance of adversarial examples sampled from the
#: adversarial distribution over 100 test images is 1.95, which is 1.56 for
#: PGD."
FIGURE_1 = {"samples": {"distance": 1.95}, "PGD": {"distance": 1.56}}

#: App. D.4: ADT-EXP "is nearly 5x slower than" AT-PGD; ADT-EXP-AM and
#: ADT-IMP-AM "are nearly 2x faster than" AT-PGD.
FIGURE_7 = {
    "ADT-EXP": {"ratio": 5.0},
    "ADT-EXP-AM": {"ratio": 0.5},
    "ADT-IMP-AM": {"ratio": 0.5},
}


def rows(text, label="{}"):
    """Returns {row: {column: number}} of a table's text.

    Args:
        text: Lines of cells apart by spaces, the columns' names first.
        label: What a row is called, such as "SVHN, {}".
    """
    (_, *columns), *lines = (line.split() for line in text.split("\n") if line)
    return {
        label.format(name): dict(zip(columns, map(float, cells), strict=True))
        for name, *cells in lines
    }


def transposed(table):
    """Returns a table with its columns as rows."""
    names = list(next(iter(table.values())))
    return {
        name: {row: values[name] for row, values in table.items()}
        for name in names
    }


TABLES = {
    "table1": rows(TABLE_1),
    "table2": rows(TABLE_2_CIFAR_100, "CIFAR-100, {}")
    | rows(TABLE_2_SVHN, "SVHN, {}"),
    "table3": rows(TABLE_3),
    "table4": rows(TABLE_4),
    "table5": rows(TABLE_5_BETA_1, "{}, beta 1.0")
    | rows(TABLE_5_BETA_6, "{}, beta 6.0"),
    "table6": rows(TABLE_6),
    "table9": rows(TABLE_9_CIFAR_100, "CIFAR-100, {}")
    | rows(TABLE_9_SVHN, "SVHN, {}"),
    "table10": rows(TABLE_10_BETA_1, "{}, beta 1.0")
    | rows(TABLE_10_BETA_6, "{}, beta 6.0"),
    "table11": transposed(rows(TABLE_11)),
    "figure1": FIGURE_1,
    "figure7": FIGURE_7,
}
