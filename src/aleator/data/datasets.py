"""The entries of the catalogue: what each dataset is, who published it, and where its files are."""

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
    """One file of a publisher.

    Attributes:
        name: Name that the file gets here.
        url: Where it is; for a file in a wheel, its path inside the wheel.
        checksum: "git:...", "md5:..." or "sha256:..."; None if none is known.
        size: Length in bytes, if it is known.
    """

    name: str
    url: str
    checksum: str | None = None
    size: int | None = None


@dataclass(frozen=True)
class Source:
    """One set of raw files from which the benchmark split can be made.

    Attributes:
        reads: Names of the files that `prepare` needs, in a folder or in a zip file of that folder.
        prepare: Makes the parts of the split from a folder.
        files: Files to download. Empty if they must be brought by hand.
        titles: Reads the titles of the items from a folder.
        wheel: Pip requirement whose wheel contains the files.
    """

    reads: tuple[str, ...]
    prepare: Callable[[Path], Parts]
    files: tuple[File, ...] = ()
    titles: Callable[[Path], Titles] | None = None
    wheel: str | None = None

    def is_in(self, folder: Path) -> bool:
        """Whether all files that are needed are in a folder."""
        return folder.is_dir() and all(raw.find(folder, name) is not None for name in self.reads)


@dataclass(frozen=True)
class Dataset:
    """A dataset of the catalogue.

    Attributes:
        name: Name for `load_dataset`.
        title: Name for people.
        users: Number of users.
        items: Number of items.
        train: Number of training pairs in the files.
        valid: Number of validation pairs in the files.
        test: Number of test pairs in the files.
        citation: What to cite.
        terms: Terms of use in short.
        page: Page of the publisher.
        archive: Name of the numpy archive that is looked for first.
        sources: Where raw files can come from, in the order in which downloads are tried.
        valid_by: How to take validation pairs so that they look like the test pairs; see `Split`.
        in_time_order: The items of each user are in order of time, although the times are not known.
        liked: Smallest rating of a positive pair. All other pairs count as unobserved. None if every pair is positive.
        paper_tail: Tail of the paper's released program.
        first_id: The publisher's id that is 0 in the archive.
        archive_titles: Name of a csv.gz file beside the archive with the columns item and title.
        note: What else is worth knowing.
    """

    name: str
    title: str
    users: int
    items: int
    train: int
    valid: int
    test: int
    citation: str
    terms: str
    page: str
    archive: str
    sources: tuple[Source, ...]
    valid_by: ValidBy
    in_time_order: bool = False
    liked: float | None = None
    paper_tail: Tail | None = None
    first_id: int = 0
    archive_titles: str | None = None
    note: str = ""


_LIGHTGCN = "https://raw.githubusercontent.com/gusye1234/LightGCN-PyTorch/master/data"
_MACR = "https://raw.githubusercontent.com/weitianxin/MACR/main/data"
_KGAT = "https://raw.githubusercontent.com/xiangwang1223/knowledge_graph_attention_network/master/Data"
_GROUPLENS = "https://files.grouplens.org/datasets/movielens"
_MOVIELENS = (
    "F. M. Harper and J. A. Konstan. The MovieLens Datasets: History and Context. ACM Transactions on Interactive "
    "Intelligent Systems 5(4), 2015."
)
_MOVIELENS_TERMS = "For research. No redistribution and no commercial use without GroupLens' permission."
_LIGHTGCN_SPLIT = (
    "Split of X. He, K. Deng, X. Wang, Y. Li, Y. Zhang and M. Wang. LightGCN: Simplifying and Powering Graph Convolution "
    "Network for Recommendation. SIGIR 2020."
)


def _train_and_test(base: str, train: str | None, test: str | None, sizes: tuple[int | None, int | None]) -> Source:
    """LightGCN's two files under the address `base`, with their checksums and sizes if they are known."""
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
        note="The items of each user are in order of time in the file, judged by the drift of item popularity.",
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
        note="The split is chronological. Item popularity drifts strongly between its parts.",
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
        terms="For research. Ask the publisher for any other use.",
        page="https://github.com/weitianxin/MACR",
        archive="adressa.npz",
        sources=(_train_and_test(f"{_MACR}/addressa", None, None, (None, None)),),
        valid_by="balanced",
        paper_tail=Tail.count(500),
        note="The test part has exactly 4 pairs of each item. No checksum is known, so a download is not verified.",
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
            "This is not MACR's preparation, which the paper used, so figures are not comparable with the paper's. "
            "Validation and test pairs are drawn evenly over items. No direct download and no checksum is known."
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
            "The ids are GroupLens' own and start at 1. The archive counts from 0, so 1 is added to its ids. The test "
            "part was drawn at random. RecBole's wheel is tried first, because pip reaches it behind company mirrors."
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
        note="There is no official split. This one is ours, and it needs no seed.",
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
        terms="For research. No redistribution and no commercial use without the authors' permission.",
        page="https://github.com/xiangwang1223/knowledge_graph_attention_network",
        archive="amazon_book_kgat.npz",
        sources=(_train_and_test(f"{_KGAT}/amazon-book", None, None, (None, None)),),
        valid_by="user_time",
        in_time_order=True,
        note=(
            "This is not the split of the paper, so figures are not comparable with the paper's. The rows are in order "
            "of time: the item popularity of train and test correlates by .69, that of each user's last tenth and the "
            "rest by .83, that of a random tenth and the rest by .95. No checksum is known, so a download is not "
            "verified."
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
        terms="Published for research. See the publisher's page for any other use.",
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
        liked=4.0,
        note=(
            "Pairs rated 4 or 5 are positive, in train and in test. Every other pair counts as unobserved, whether it "
            "was rated lower or not at all. Users chose the training items themselves. The test items were assigned at "
            "random, evenly over items. 366 test pairs are also in train and are left out. No checksum is known, so a "
            "download is not verified."
        ),
    ),
)
CATALOG = {entry.name: entry for entry in _ENTRIES}
