"""Thresholds: the numbers that decide how work is done; no answer depends on any of them.

Answer   `Tuning` holds one record of thresholds per part of the engine. Each number has the measurement that shows its
         effect, or the bound that it keeps.
Limits   None of them is an option of SET. `Settings.tuning` holds the record, so that a test can pass another one.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class SharingTuning:
    #: From this number of queries of one group on, results are collected per query, where possible by the last probe.
    #: With fewer, each query takes its own out of the combinations that all share. Measured by
    #: `bench/papers/cacq/end_to_end.py`.
    many_queries: int = 8
    #: Up to this number of filters of a port are tested one by one: a few comparisons cost less than sorting the batch.
    #: Measured by `bench/papers/cacq/filters.py`.
    few_filters: int = 8
    #: A batch whose rows times this number exceed the ranges of all filters is sorted and swept. In a smaller batch each
    #: row is looked up in a tree of ranges. Measured by `bench/papers/cacq/filters.py`.
    ranges_per_row: int = 32
    #: Candidates of the grouped filter that are held before they are confirmed. A bound of memory: 8 MB.
    candidates: int = 1 << 20
    #: More pairs than this are not held for other groups. A bound of memory: 64 MB of ids.
    most_shared_pairs: int = 1 << 22
    #: Rows that are probed for other groups before the number of pairs is compared with `most_shared_pairs`. A bound of
    #: memory: the pairs of these rows may exceed it.
    shared_rows_at_once: int = 1 << 15
    #: A query that lags another by more rows of a stream than this shares no probe with it. A bound of work: some pairs
    #: that are found for it have expired before it reads them.
    most_rows_behind: int = 1 << 15
    #: The first size of a buffer that doubles as it fills. Tests of growing buffers give 1.
    least_room: int = 1 << 12


@dataclass(frozen=True)
class SchedulingTuning:
    #: Windows are grouped into at most this number of levels: results of every level leave once per unit of work. This
    #: and the following numbers are measured by `bench/papers/shared-window-scheduling/engine.py`.
    most_levels: int = 8
    #: A slice of fewer new rows is not cut: it ends before a schedule helps.
    least_rows: int = 256
    #: New rows are cut into at most `most_batches` batches, of at least `least_batch` rows.
    most_batches: int = 32
    least_batch: int = 128
    #: Where combinations carry lineage, batches are not merged into one unit of work, and there are at most so many.
    most_apart: int = 8
    #: Windows up to this part of the largest are small: neighbouring rows find the same stored rows in them.
    small_window: float = 0.1


@dataclass(frozen=True)
class DemandTuning:
    #: An edge begins to hold rows back when that saves the share `start` of the work, and stops below `stop`. The gap
    #: keeps an edge from switching to and fro. Measured by `bench/papers/just-in-time/run.py`.
    start: float = 0.25
    stop: float = 0.1
    #: Another set of conditions replaces the present one if it saves this share of the work more.
    better: float = 0.1
    #: Nanoseconds, of which only the ratios matter; `bench/papers/just-in-time/costs.py` measures all of them. To make,
    #: keep and use a combination, and to make it late. To test a condition of one, and whether an opposite row is new to
    #: its store. To visit a row in order to resume, and in a scan. Per epoch and condition.
    make: float = 200.0
    resume: float = 280.0
    check: float = 32.0
    novel: float = 130.0
    wake: float = 13.0
    scan: float = 0.6
    fixed: float = 430_000.0
    #: Fewer observations than this decide nothing: of 64 samples, a share of 0.25 has a standard deviation of 0.05.
    enough: int = 64
    #: The most epochs between two samples: a sample of 256 rows in 64 epochs is no measurable work.
    longest_pause: int = 64
    #: A condition on single rows is tested if it refuses at least this share of them: `useful` for stored combinations,
    #: the other for admission to a join of several inputs. There a refusal saves only the probes of one row. Measured by
    #: `costs.py`.
    useful: float = 0.05
    useful_admission: float = 0.25
    #: An undecided edge samples the pairs of this number of rows of each input: four times `enough`.
    sample: int = 256
    #: A row on the way to a combination costs this factor more where every step is recorded (`costs.py`).
    step_by_step: int = 8


@dataclass(frozen=True)
class LotteryTuning:
    #: An operator that passes on half as many rows is drawn 2 to this power times as often. Measured by
    #: `bench/papers/cacq/eddy.py` (work against the best fixed order), as are the following numbers.
    sharpness: int = 8
    #: A batch of this number of rows halves the counts before it; a smaller one reduces them less.
    whole_batch: int = 256
    #: An operator that has not been observed is taken to pass on one row per row, with this weight.
    prior: float = 1.0
    #: The most lineages that are routed apart. Each has at least `least_share` of a sample of `sample` rows (the third
    #: run of `eddy.py`).
    most_kinds: int = 4
    least_share: float = 0.1
    sample: int = 512


@dataclass(frozen=True)
class PlanningTuning:
    #: A group is sampled after this number of new rows of its streams. Measured by
    #: `bench/papers/qualified-plans/flip.py`.
    rows_per_look: int = 1024
    #: Sampled new rows and live rows of a reference, and sampled pairs for a condition that is no equality. With these
    #: numbers a sample takes about a millisecond, whatever the stores hold.
    new_rows: int = 2048
    live_rows: int = 8192
    pairs: int = 1024
    #: The part of older counts that each sample keeps: after four samples fifteen sixteenths of the counts are new.
    keep: float = 0.5
    #: Samples between two searches if no rate has changed much, and between a migration and the next one.
    calm: int = 8
    cool: int = 4
    #: A rate or selectivity that changed by this factor since the last search starts another one; smaller changes rarely
    #: change the best tree (`random_settings.py` of the same folder).
    change: float = 1.3
    #: A move is made if the running plan costs at least this factor more CPU than the other: `model_reality.py` compares
    #: predicted costs with measured ones.
    clearly_worse: float = 1.5
    #: If no tree fits the budget, a move is made to a tree whose excess is smaller by this factor.
    clearly_nearer: float = 1.2


@dataclass(frozen=True)
class StateTuning:
    #: Fewer rows of a column are not written to a file of their own. A file of 4,096 numbers has 32 kB: fewer rows
    #: would cost more in system calls than they free.
    least_spilled: int = 4096
    #: Fewer dropped rows do not make a store close its gaps: the copying would cost more than the gaps.
    least_dropped: int = 256


@dataclass(frozen=True)
class ZoneTuning:
    #: A join begins to compare zones when that saves the share `start` of the work, and stops below `stop`. Measured by
    #: `bench/papers/heralds`, as are the following numbers.
    start: float = 0.25
    stop: float = 0.1
    #: The most epochs between two samples: one sample in 64 epochs is no measurable work.
    longest_pause: int = 64
    #: Nanoseconds, of which only the ratios matter. To visit a pair in a scan, to test a condition of one, to probe with
    #: a row. To compare two zones once, to read the key of a row, and per portion of a step.
    pair: float = 4.0
    test: float = 30.0
    probe: float = 60.0
    cell: float = 1.5
    key: float = 3.0
    fixed: float = 120_000.0
    #: Nanoseconds of a filtered batch: to sort and look up a row, to visit a row of a zone, and per use of zones. Of
    #: 20,000 rows each takes 31 to 38, and 5 to 6 with 90 % left out; of 2,000 rows 32, and 23 to 25. Of 1,000 rows each
    #: takes 42 to 44, and 45 to 47: there zones cost more than they save (`python -m bench.micro.thresholds sort`).
    sort: float = 30.0
    stretch: float = 1.0
    batch: float = 22_000.0
    #: The share of a test that is saved where pairs are tested by their keys. Of a whole scan 84 to 69 % are saved
    #: where 0.2 to 75 % of the pairs match (`python -m bench.micro thresholds`, which measures the next number too).
    by_key: float = 0.8
    #: Nanoseconds of one call of zones by demand, whatever its size: 97 µs in a run in which a key took 3.6.
    question: float = 80_000.0
    #: The most rows of a zone, and the least that it has before a herald ends it.
    rows: int = 64
    least_rows: int = 16
    #: From this number of rows of a probe by hash on, a sample of them is compared with zones before all are. A bound of
    #: work: the sample costs as much as 1,024 rows, which is no more than the probe itself.
    sample: int = 1024
    #: Places of heralds that a store keeps while no join reads its zones. A bound of memory: 32 kB.
    most_heralds: int = 4096


@dataclass(frozen=True)
class TemplateTuning:
    #: Rows of a block of the index. `bench/papers/templates/figures.py` shows what requests visit of two and of four
    #: blocks.
    block_rows: int = 1 << 16
    #: The newest rows are a piece of their own once they are one in this number of a block's rows. 1,024 rows are
    #: scanned in a microsecond, and clustering them takes as long as some forty requests that scan them. With 8 and 128
    #: requests per 1,024 rows, 64 takes 1.04 and 1.00 of the time of the best of 4 to 128, and 16 takes 1.00 and 1.18
    #: (`python -m bench.micro thresholds`).
    least_piece: int = 64
    #: Rows whose keys are worked out at a time. A bound of memory.
    portion: int = 1 << 18
    #: Whether the finest groups of the whole window are kept for requests that read them, if they are at most this part
    #: of its rows. Nine requests per 500 rows take 0.62 of the time from rows if groups are 0.02 or 0.1 of the rows, and
    #: 1.02 if they are 0.24 (`python -m bench.micro thresholds`).
    precomputed: bool = True
    most_groups: float = 0.25
    #: The first size of a buffer of pairs, which doubles as it fills; where probes are few, that for each of them.
    #: Bounds of memory: 1 MB, and 64 kB for one probe.
    least_room: int = 1 << 16
    room_per_probe: int = 1 << 12

    def room(self, probes: int) -> int:
        """The first size of a buffer for the pairs of this number of probes."""
        return min(self.least_room, self.room_per_probe * probes)

    #: A column with at most this number of values in a block is numbered, because hashing few values
    #: fills addresses unevenly. A bound of memory: an eighth of a block.
    most_codes: int = 1 << 13
    #: A range over more than this share of a field's values, or more addresses of all probes, is not looked up: half a
    #: block costs about a scan. The number of addresses is a bound of memory.
    widest_range: float = 0.5
    most_addresses: int = 1 << 16
    #: One request sends at most this number of probes; further values of IN lists are tested row by row. A bound of
    #: memory.
    most_probes: int = 4096
    #: Blocks that are clustered again per epoch after a change of the configuration: about 8 ms at `build` seconds per
    #: row.
    rebuilt_per_epoch: int = 2
    #: The configuration is reviewed after this number of requests, or of epochs in which requests came. `figures.py` of
    #: the same folder shows the costs of reviews and changes.
    requests_between: int = 1_000
    epochs_between: int = 50
    #: A review searches again if the shares of patterns have changed by more than this in all, or another number by this
    #: factor. Ten reviews of unchanged shares cause 2 searches, as with wider bounds; with 0.1 and 1.3 they cause 3,
    #: with 0.05 and 1.1 they cause 4. With all of these bounds the index follows a change of the shares after as many
    #: requests (`python -m bench.micro thresholds`).
    moved_shares: float = 0.15
    moved_factor: float = 1.5
    #: The part of the counts of earlier requests that every review keeps.
    keep: float = 0.5
    #: Rows that are sampled to count the values of a column; they are counted again when one in `new_share` of them is
    #: new.
    sample: int = 1 << 14
    new_share: int = 4
    #: A window length counts as at most this multiple, and at least this part, of the time between two reviews. Bounds
    #: against overflow.
    most_scale: float = 1e4
    least_scale: float = 1e-3
    #: Seconds per row of a scan for many requests (a hash and a probe of their table), of one for a single request, and
    #: to cluster a block. `python -m bench.papers.run templates --steps costs` measures them.
    shared_scan: float = 4.0e-9
    single_scan: float = 0.6e-9
    build: float = 60e-9
    #: Up to this number of configurations, each in every order of its fields, are all priced: some milliseconds. Three
    #: columns and 16 bits have 5,814; four have more, and are searched bits first.
    most_layouts: int = 1 << 13
    #: The step between numbers of address bits that are tried if there are more: with more bits, requests visit fewer
    #: rows and begin more runs. Chosen so that a search over 24 bits tries eight of them.
    step: int = 3


@dataclass(frozen=True)
class PunctuationTuning:
    #: `purge = auto` does not sweep for fewer new rows than this. `bench/papers/punctuations/counts.py` counts sweeps and
    #: rows.
    least_rows: int = 512
    #: A sweep over the rows of some keys follows the chains of these keys, or takes all rows of a reference where there
    #: are at most this many for each key. With 20,000 stored rows a test takes 3 ns per row and a chain 10 to 15 ns per
    #: row that it finds: 16 tests cost what finding four rows of a key does.
    walked: int = 16
    #: All rows are swept again when this many times the stored rows have come since the last time; sweeps in between test
    #: only new rows. Chosen so that a sweep over all rows costs at most a quarter of a sweep per row that came.
    whole_sweep: int = 4
    #: Two references without windows are swept whole if at most this many rows are stored for each that has come since
    #: the last sweep. Four tests of 3 ns are what one step along a chain takes.
    short: int = 4
    #: After a sweep that removed fewer than one row in this number, `purge = auto` waits twice as long, at most
    #: `most_patience` times as long as otherwise. This bounds by how much state grows before the next sweep after
    #: punctuations suddenly begin to close it.
    fruitful: int = 16
    most_patience: int = 8
    #: The same for joins all of whose rows leave by windows: their state does not grow. Punctuations that close nothing
    #: cause 10 sweeps in 80 epochs, and 41 with 8 (the streams of figure 8.3 in `bench/papers/punctuations/times.py`).
    windowed_patience: int = 64
    #: An aggregate searches for finished groups from this number of groups on. A bound of memory: 64 groups take a few
    #: kB.
    least_groups: int = 64
    #: Keys count as dense where an array from the least to the greatest has at most this many places for each of them.
    #: With 20,000 keys such an array takes 0.07 of the time of sorting them at 8 places per key, and still 0.23 at 64
    #: (`python -m bench.micro sizes`); the bound is one of memory, 64 bytes per key.
    dense: int = 8
    #: Keys of new rows in more arrays than this are merged, each once. A bound of memory.
    most_pieces: int = 32


@dataclass(frozen=True)
class PatternTuning:
    #: Matches of one slice that become results at a time. A bound of memory.
    matches_at_once: int = 1 << 17
    #: Matches that one event completes beyond which there is a warning, where most_matches is not set.
    many_matches: int = 1_000_000
    #: Events that the kernel visits before Python may run the handler of a signal: 20 to 60 ms.
    most_steps: int = 1 << 22
    #: Events held beyond twice those of the last sweep before the next one. A bound of memory.
    least_swept: int = 256
    #: The most dead events among live ones before the live ones are copied. A bound of memory.
    most_holes: int = 1024


@dataclass(frozen=True)
class InputTuning:
    #: Slices of a job whose checkpoint is to serve several cores: as many processes can share its work.
    slices: int = 8
    #: Rows of a parquet file that are decoded at once. A million rows take 56 to 63 ms with any number from 4,096 to
    #: 1,048,576 (`python -m bench.micro sizes`), so this is a bound of memory.
    parquet_rows: int = 131_072
    #: Row groups of a stream that more queries read than these are all read: each group is compared with each query. A
    #: bound of the time that takes.
    most_readers: int = 1_000
    #: Row groups of fewer rows are read without a look at their statistics: looking takes about as long.
    least_looked_at: int = 1_000
    #: Bytes of a text file that are read at once. In portions of 4 MB a csv file of 40 MB (bids of NEXMark) takes 0.12 s
    #: of CPU; of 8 MB 0.11 s, of 2 MB 0.13 s, of 1 MB 0.16 s, of 256 kB 0.27 s.
    text_bytes: int = 4 << 20
    #: From this number of bytes on, a further thread parses a portion: parsing takes about 2 ms there, starting it 0.1.
    threaded_bytes: int = 1 << 20
    #: Seconds between two listings of new files, and after which a broken file that no longer changes is given up. Bounds
    #: of the time until a file is read.
    poll_seconds: float = 0.2
    give_up_seconds: float = 2.0
    #: Clocks of file systems are coarse: only after this number of seconds does an unchanged time prove that nothing
    #: has come. Not every file system keeps the times of folders: each is listed again after the other number.
    certain_seconds: float = 3.0
    again_seconds: float = 60.0
    #: After a listing that took longer than `long_listing` seconds follows a pause of `pause` times its length, at most
    #: `longest_pause` seconds: listings take at most about 2 % of the time.
    long_listing: float = 0.002
    pause: float = 50.0
    longest_pause: float = 5.0
    #: Seconds between two checks of files that were read. A check reads the times of at most 1,000 files, which takes a
    #: few milliseconds.
    watch_seconds: float = 10.0
    #: A log of file names is begun anew when this number of bytes, and twice its beginning, have been appended. A bound
    #: of disk space.
    log_bytes: int = 1 << 20
    #: On Spark a batch takes at most this many bytes of all streams without `files_per_batch`, at least one file or part.
    #: A bound of memory. It begins with the second number, and takes no fewer than the third because batches are slow.
    batch_bytes: int = 64 << 20
    first_batch_bytes: int = 8 << 20
    least_batch_bytes: int = 256 << 10
    #: A batch takes text in stretches of one part in this number of what it may take: about so much may be missing. The
    #: rows of each stretch are estimated by its first `sample_bytes`.
    stretches: int = 16
    sample_bytes: int = 64 << 10
    #: On several shards, a file of which a batch reads more than this is read by several tasks, where its format allows
    #: it. Each range of a csv file reads the header line again, and each gives a packet to every shard.
    piece_bytes: int = 4 << 20
    #: Between two batches a process with engines reads at most this many bytes of what is likely to come.
    ahead_bytes: int = 64 << 20


@dataclass(frozen=True)
class OutputTuning:
    #: A file of results is written when this much has been collected. Bounds of memory.
    file_rows: int = 1_000_000
    file_bytes: int = 32 << 20
    #: All sinks together hold at most about this much: beyond it, the next sink that gets results writes a smaller file.
    #: A bound of memory, as is the number of bytes that wait for the writing thread.
    collected_bytes: int = 256 << 20
    under_way_bytes: int = 32 << 20
    #: Larger results go into a file of their own at once. Eight pieces of 1.4 MB take 40 ms of CPU through the journal
    #: into one file, and 76 ms as files of their own (`python -m bench.micro sizes`). This is a bound of the bytes that
    #: are written twice.
    small_bytes: int = 1 << 20
    #: A shard writes the results of a query and batch as a file where they have at least this many bytes.
    shard_file_bytes: int = 1 << 20
    #: At most this number of files are closed by age per second. A bound of work for very many sinks.
    files_per_second: int = 20
    #: A query is warned of once of which this many rows wait in a session and are not taken: about 100 MB.
    kept_rows: int = 1_000_000


@dataclass(frozen=True)
class ReportTuning:
    #: Seconds between two reports at least, and at most because of their cost: the first report of a process is the
    #: dearest.
    seconds: float = 1.0
    most_seconds: float = 5.0
    #: Reports take at most one part in this number of the CPU time of the process. Measured by `python -m
    #: bench.dashboard`.
    parts: int = 60
    #: A process that uses fewer cores than this counts as one that uses this number, so that reports of a quiet job
    #: stay fresh: a report that takes 1 ms comes every second.
    least_busy: float = 0.1


@dataclass(frozen=True)
class Tuning:
    #: About how many pairs a probe makes before the next step takes them. A bound of memory: 8 MB per column of ids.
    pairs_at_once: int = 1 << 20
    #: About how many results are made at once: an epoch that would make more is cut into slices of its rows. A bound of
    #: memory; measured by `bench/peers` on W1.
    results_at_once: int = 2_000_000
    #: From this number on, results leave an epoch while it runs. Joins find pairs and make results in pieces of about
    #: this size, and make the next piece when the sinks have taken this one. A bound of memory: 9 million
    #: results of one key take 100 MB with it and 380 MB with twice as many, and 1.9 and 2.1 s of CPU.
    results_held: int = 250_000
    #: If results are released in portions, a slice may make this multiple of them: rows of the next slice wait for the
    #: largest windows of this one.
    in_portions: int = 2
    sharing: SharingTuning = field(default_factory=SharingTuning)
    scheduling: SchedulingTuning = field(default_factory=SchedulingTuning)
    demand: DemandTuning = field(default_factory=DemandTuning)
    lottery: LotteryTuning = field(default_factory=LotteryTuning)
    planning: PlanningTuning = field(default_factory=PlanningTuning)
    state: StateTuning = field(default_factory=StateTuning)
    zones: ZoneTuning = field(default_factory=ZoneTuning)
    templates: TemplateTuning = field(default_factory=TemplateTuning)
    punctuations: PunctuationTuning = field(default_factory=PunctuationTuning)
    patterns: PatternTuning = field(default_factory=PatternTuning)
    input: InputTuning = field(default_factory=InputTuning)
    output: OutputTuning = field(default_factory=OutputTuning)
    reports: ReportTuning = field(default_factory=ReportTuning)
