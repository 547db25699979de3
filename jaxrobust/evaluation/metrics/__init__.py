"""Metrics of verdicts, predictions and accuracies: numpy in, numbers out, one file per question.

`proportions` (with intervals), `adversarial` (AR, WCAR), `curves`, `corruptions` (mCE), `flips` (ImageNet-P),
`outliers` (AUPR, AUROC), `stability` (NSD, frequency bias). Accuracies and errors are fractions, never percentages.
"""
