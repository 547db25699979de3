"""Training: `loop` runs it, `step` is what is compiled, `state` what changes, `config` what decides.

`technique` says what a technique may do; inner rooms hold them: `techniques`, `augmentations`, `pretraining`.
May import core, models, attacks and data, and the engine for validation.
"""
