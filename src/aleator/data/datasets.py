"""The entries of the catalogue: what each dataset is, whose it is, and where its publisher keeps it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from aleator.data import raw
from aleator.data.raw import Parts, Titles
from aleator.data.splits import ValidBy
from aleator.data.tail import Tail


@dataclass(frozen=True)
class File:
    """One file of a publisher."""

    name: str
    url: str  # in a wheel: the path within it
    checksum: str | None = None  # "git:...", "md5:..." or "sha256:..."; None where none is known
    size: int | None = None  # bytes


@dataclass(frozen=True)
class Source:
    """One set of raw files that the benchmark split can be made of."""

    reads: tuple[str, ...]  # what `prepare` needs, plain in the folder or within a zip file there
    prepare: Callable[[Path], Parts]
    files: tuple[File, ...] = ()  # what to download; empty where it must be fetched by hand
    titles: Callable[[Path], Titles] | None = None
    wheel: str | None = None  # the pip requirement whose wheel holds the files


@dataclass(frozen=True)
class Dataset:
    """What is known of a dataset: its size, where it comes from, and how raw files become the benchmark split."""

    name: str
    title: str
    users: int
    items: int
    train: int  # pairs, as the files give them
    valid: int
    test: int
    citation: str
    terms: str
    page: str  # where the publisher speaks of it
    archive: str  # name of the numpy archive, where there is one
    sources: tuple[Source, ...]  # in the order in which a download is tried
    valid_by: ValidBy  # how a validation part looks like the test
    in_time_order: bool = False  # the items of a user are in time order although no times are known
    paper_tail: Tail | None = None  # the cut of the paper's released program
    first_id: int = 0  # the original id of the archive's 0
    archive_titles: str | None = None  # a csv.gz beside the archive with the columns item and title
    note: str = ""


_LIGHTGCN = "https://raw.githubusercontent.com/gusye1234/LightGCN-PyTorch/master/data"
_MACR = "https://raw.githubusercontent.com/weitianxin/MACR/main/data"
_KGAT = "https://raw.githubusercontent.com/xiangwang1223/knowledge_graph_attention_network/master/Data"
_GROUPLENS = "https://files.grouplens.org/datasets/movielens"
_MOVIELENS = (
    "F. M. Harper and J. A. Konstan. The MovieLens Datasets: History and Context. ACM Transactions on Interactive "
    "Intelligent Systems 5(4), 2015."
)
_MOVIELENS_TERMS = "For research; no redistribution and no commercial use without GroupLens' permission."
_LIGHTGCN_SPLIT = (
    "Split of X. He, K. Deng, X. Wang, Y. Li, Y. Zhang and M. Wang. LightGCN: Simplifying and Powering Graph Convolution "
    "Network for Recommendation. SIGIR 2020."
)


def _train_and_test(base: str, train: str | None, test: str | None, sizes: tuple[int | None, int | None]) -> Source:
    """LightGCN's two files below `base`, with their checksums and sizes where known."""
    files = (
        File("train.txt", f"{base}/train.txt", train, sizes[0]),
        File("test.txt", f"{base}/test.txt", test, sizes[1]),
    )
    return Source(("train.txt", "test.txt"), raw.adjacency, files)


_ENTRIES = (
    Dataset(
        name="yelp2018",
        title="Yelp2018, the LightGCN split",
        users=31_668,
        items=38_048,
        train=1_237_259,
        valid=0,
        test=324_147,
        citation=f"Yelp Open Dataset (challenge of 2018). {_LIGHTGCN_SPLIT}",
        terms="Yelp's dataset licence: academic, non-commercial use, no redistribution.",
        page="https://github.com/gusye1234/LightGCN-PyTorch",
        archive="yelp2018.npz",
        sources=(
            _train_and_test(
                f"{_LIGHTGCN}/yelp2018",
                "git:cda12361055ba448ae4bd1070f6000c16dea8f22",
                "git:30dfbc3437b27b74cb2970b435a5ec93ad9f2468",
                (6_904_880, 1_986_152),
            ),
        ),
        valid_by="user_time",
        in_time_order=True,
        paper_tail=Tail.count(56),
        note="Each user's items stand in time order in the file, judged by how item popularity drifts along it.",
    ),
    Dataset(
        name="amazon-book",
        title="Amazon-Book, the LightGCN split",
        users=52_643,
        items=91_599,
        train=2_380_730,
        valid=0,
        test=603_378,
        citation=(
            "R. He and J. McAuley. Ups and Downs: Modeling the Visual Evolution of Fashion Trends with One-Class "
            f"Collaborative Filtering. WWW 2016. {_LIGHTGCN_SPLIT}"
        ),
        terms="Published for research, without an explicit licence.",
        page="https://github.com/gusye1234/LightGCN-PyTorch",
        archive="amazon_book.npz",
        sources=(
            _train_and_test(
                f"{_LIGHTGCN}/amazon-book",
                "git:6ef55159c5f1fd7f6d86eb9ff290d0cc2854ac99",
                "git:09e5da4e0bf46c751c4ba0f4375e414fd13512cd",
                (None, 3_848_611),
            ),
        ),
        valid_by="user_time",
        in_time_order=True,
        paper_tail=Tail.count(39),
        note="The split is chronological and item popularity drifts strongly between its parts.",
    ),
    Dataset(
        name="gowalla",
        title="Gowalla check-ins, the LightGCN split",
        users=29_858,
        items=40_981,
        train=810_128,
        valid=0,
        test=217_242,
        citation=(
            "E. Cho, S. A. Myers and J. Leskovec. Friendship and Mobility: User Movement in Location-Based Social "
            f"Networks. KDD 2011. {_LIGHTGCN_SPLIT}"
        ),
        terms="Published for research, without an explicit licence.",
        page="https://github.com/gusye1234/LightGCN-PyTorch",
        archive="gowalla.npz",
        sources=(
            _train_and_test(
                f"{_LIGHTGCN}/gowalla",
                "git:a27782bd7a1d4d0744148dc0460ea94da74763f2",
                "git:9ed5af4b5d21511f33740b4e22e3852f45671800",
                (None, 1_372_559),
            ),
        ),
        valid_by="user_time",
        in_time_order=True,
    ),
    Dataset(
        name="adressa",
        title="Adressa news, as MACR and AUR use it",
        users=13_485,
        items=744,
        train=113_345,
        valid=0,
        test=2_976,
        citation=(
            "J. A. Gulla, L. Zhang, P. Liu, O. Ozgobek and X. Su. The Adressa Dataset for News Recommendation. WI 2017. "
            "Preparation of T. Wei, F. Feng, J. Chen, Z. Wu, J. Yi and X. He. Model-Agnostic Counterfactual Reasoning "
            "for Eliminating Popularity Bias in Recommender System. KDD 2021."
        ),
        terms="For research; ask the publisher for any other use.",
        page="https://github.com/weitianxin/MACR",
        archive="adressa.npz",
        sources=(_train_and_test(f"{_MACR}/addressa", None, None, (None, None)),),
        valid_by="balanced",
        paper_tail=Tail.count(500),
        note="The test holds exactly 4 pairs of each item. No checksum is known: what is downloaded is not verified.",
    ),
    Dataset(
        name="ml-10m",
        title="MovieLens-10M, as DICE prepares it",
        users=37_962,
        items=4_819,
        train=960_031,
        valid=137_147,
        test=274_295,
        citation=(
            f"{_MOVIELENS} Preparation of Y. Zheng, C. Gao, X. Li, X. He, D. Jin and Y. Li. Disentangling User Interest "
            "and Conformity for Recommendation with Causal Embedding. WWW 2021."
        ),
        terms=_MOVIELENS_TERMS,
        page="https://github.com/tsinghua-fib-lab/DICE",
        archive="ml10m.npz",
        sources=(
            Source(
                ("train_coo_record.npz", "train_skew_coo_record.npz", "val_coo_record.npz", "test_coo_record.npz"),
                raw.dice,
            ),
        ),
        valid_by="balanced",
        note=(
            "Not MACR's preparation, which the paper used: not comparable with its figures. Valid and test are drawn "
            "evenly over items. No direct download and no checksum is known."
        ),
    ),
    Dataset(
        name="ml-100k",
        title="MovieLens-100K, the official ua split",
        users=943,
        items=1_682,
        train=90_570,
        valid=0,
        test=9_430,
        citation=_MOVIELENS,
        terms=_MOVIELENS_TERMS,
        page="https://grouplens.org/datasets/movielens/100k/",
        archive="ml100k.npz",
        sources=(
            Source(
                ("ml-100k.inter",),
                raw.ml100k_recbole,
                (
                    File(
                        "ml-100k.inter",
                        "recbole/dataset_example/ml-100k/ml-100k.inter",
                        "sha256:4edb74e2a81178c2ba9ff381495f754f996c4aea351b1272ca36b43da0935eff",
                    ),
                    File(
                        "ml-100k.item",
                        "recbole/dataset_example/ml-100k/ml-100k.item",
                        "sha256:51d7cdf777ce5c0f5b32c1d947a4a81fe07d75e78abbe761e0cd4d0756064532",
                    ),
                ),
                raw.ml100k_recbole_titles,
                wheel="recbole==1.2.1",
            ),
            Source(
                ("ua.base", "ua.test"),
                raw.ml100k_official,
                (File("ml-100k.zip", f"{_GROUPLENS}/ml-100k.zip", "md5:0e33842e24a9c977be4e0107933c0723"),),
                raw.listed_titles("u.item", "|"),
            ),
        ),
        valid_by="each",
        first_id=1,
        archive_titles="ml100k_items.csv.gz",
        note=(
            "Ids are GroupLens' own, from 1; the archive counts from 0 and is moved up by one. The test was drawn at "
            "random. RecBole's wheel is tried first because pip reaches it behind company mirrors."
        ),
    ),
    Dataset(
        name="ml-1m",
        title="MovieLens-1M, each user's ten latest ratings held out",
        users=6_040,
        items=3_706,
        train=939_809,
        valid=0,
        test=60_400,
        citation=_MOVIELENS,
        terms=_MOVIELENS_TERMS,
        page="https://grouplens.org/datasets/movielens/1m/",
        archive="ml1m.npz",
        sources=(
            Source(
                ("ratings.dat",),
                raw.ml1m,
                (File("ml-1m.zip", f"{_GROUPLENS}/ml-1m.zip", "md5:c4d9eecfca2ab87c1945afe126590906"),),
                raw.listed_titles("movies.dat", "::"),
            ),
        ),
        valid_by="user_time",
        note="It has no official split: this one is ours, and needs no seed.",
    ),
    Dataset(
        name="amazon-book-kgat",
        title="Amazon-Book, KGAT's 10-core version",
        users=70_679,
        items=24_915,
        train=652_514,
        valid=0,
        test=193_920,
        citation=(
            "X. Wang, X. He, Y. Cao, M. Liu and T.-S. Chua. KGAT: Knowledge Graph Attention Network for Recommendation. "
            "KDD 2019."
        ),
        terms="For research; no redistribution and no commercial use without the authors' permission.",
        page="https://github.com/xiangwang1223/knowledge_graph_attention_network",
        archive="amazon_book_kgat.npz",
        sources=(_train_and_test(f"{_KGAT}/amazon-book", None, None, (None, None)),),
        valid_by="user_time",
        in_time_order=True,
        note=(
            "Not the split of the paper: not comparable with its figures. In time order: item popularity of train and "
            "test correlates by .69, of each user's last tenth with the rest by .83, of a random tenth by .95. No "
            "checksum is known: what is downloaded is not verified."
        ),
    ),
    Dataset(
        name="coat",
        title="Coat Shopping, with ratings",
        users=290,
        items=300,
        train=6_960,
        valid=0,
        test=4_640,
        citation=(
            "T. Schnabel, A. Swaminathan, A. Singh, N. Chandak and T. Joachims. Recommendations as Treatments: Debiasing "
            "Learning and Evaluation. ICML 2016."
        ),
        terms="Published for research; see the publisher's page for any other use.",
        page="https://www.cs.cornell.edu/~schnabts/mnar/",
        archive="coat.npz",
        sources=(
            Source(
                ("train.ascii", "test.ascii"),
                raw.coat,
                (File("coat.zip", "https://www.cs.cornell.edu/~schnabts/mnar/coat.zip"),),
            ),
        ),
        valid_by="balanced",
        note=(
            "Train is self-selected, test was assigned at random and so is even over items; 366 test pairs also stand in "
            "train and are left out. No checksum is known: what is downloaded is not verified."
        ),
    ),
)
CATALOG = {entry.name: entry for entry in _ENTRIES}
