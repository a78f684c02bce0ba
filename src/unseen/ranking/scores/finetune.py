"""Early-stopped fine-tuning: the accuracy that a checkpoint reaches after one epoch, or after five.

Paper:      Li et al., "Ranking neural checkpoints" (NeuCRaB), section 3.1, CVPR 2021 [P]
Implements: the cards; training is the business of `unseen.benchmarks.rank.truth`, for it needs images and the network
Differs:    [P] scores on the task's test set; a score must not touch test labels, so validation images are taken
Expected:   [P] Table 1, Group I, Kendall: 22.15 after one epoch, 36.78 after five
"""

from __future__ import annotations

from unseen.ranking.cards import IMAGES, ScoreCard

_CITATION = "Li et al., CVPR 2021"
ONE_EPOCH = ScoreCard("finetune-1", "Fine-tune (1 epoch)", IMAGES, epochs=1, paper="neucrab", citation=_CITATION)
FIVE_EPOCHS = ScoreCard("finetune-5", "Fine-tune (5 epochs)", IMAGES, epochs=5, paper="neucrab", citation=_CITATION)
