"""Concepts: ontologies, similarities, generalization levels, zero-shot splits, leak audit."""

from unseen.concepts.audit import Audit, AuditRow, Kinship, Relation, audit_classes
from unseen.concepts.eligibility import (
    Eligibility,
    cog_discarded,
    filters_for,
    imagenet_zeroshot_split,
    read_split,
    run_funnel,
)
from unseen.concepts.image_evidence import Answers
from unseen.concepts.imagenet import imagenet_1k, imagenet_21k, read_counts
from unseen.concepts.information import InformationContent, corpus_information, information_content
from unseen.concepts.levels import (
    Level,
    Levels,
    build_levels,
    random_levels,
    rerank_levels,
)
from unseen.concepts.mapping import (
    ClassMapping,
    list_unknown,
    map_classes,
    match_names,
    read_class_list,
    read_mapping,
    read_seen,
)
from unseen.concepts.senses import ClassMatch, match_classes
from unseen.concepts.similarity import MEASURES, Nearest, nearest_seen, similarity_matrix
from unseen.concepts.taxonomy import Taxonomy, read_taxonomy
from unseen.concepts.text import (
    TextEmbedder,
    WordVectors,
    read_word_vectors,
    text_measure,
    text_similarity_matrix,
    vocabulary,
)
from unseen.concepts.wordnet import WordNet, load_wordnet

__all__ = [
    "MEASURES",
    "Answers",
    "Audit",
    "AuditRow",
    "ClassMapping",
    "ClassMatch",
    "Eligibility",
    "InformationContent",
    "Kinship",
    "Level",
    "Levels",
    "Nearest",
    "Relation",
    "Taxonomy",
    "TextEmbedder",
    "WordNet",
    "WordVectors",
    "audit_classes",
    "build_levels",
    "cog_discarded",
    "corpus_information",
    "filters_for",
    "imagenet_1k",
    "imagenet_21k",
    "imagenet_zeroshot_split",
    "information_content",
    "list_unknown",
    "load_wordnet",
    "map_classes",
    "match_classes",
    "match_names",
    "nearest_seen",
    "random_levels",
    "read_class_list",
    "read_counts",
    "read_mapping",
    "read_seen",
    "read_split",
    "read_taxonomy",
    "read_word_vectors",
    "rerank_levels",
    "run_funnel",
    "similarity_matrix",
    "text_measure",
    "text_similarity_matrix",
    "vocabulary",
]
