"""Functions of DuckDB that this language does not have, and what to write instead.

Answer   `instead` gives the hint for a name: the nearest expression of this language, or the statement that does the
         work. Names of other engines that mean the same stand beside DuckDB's.
State    None.
Limits   A name that neither DuckDB nor the lists below have gets None. Where nothing comes near, the hint is a
         function of one's own.
"""

from __future__ import annotations

import re

_OWN = "write it in Python: CREATE FUNCTION name(x DOUBLE) RETURNS DOUBLE AS 'module:attribute'"
_OWN_TEXT = "write it in Python: CREATE FUNCTION name(x STRING) RETURNS STRING AS 'module:attribute'"
_CATALOG = "EXPLAIN shows how a query is answered; `eddyline query list` and `eddyline state` show a job"
_FILES = "files are declared: CREATE STREAM or TABLE name (column TYPE, …) WITH (format = 'parquet', path = '…')"
_NOW = "time is the time of rows: compare with an event-time column"
_ARRAY = "an ARRAY has a[i] and array_length(a), and UNNEST in FROM makes rows of its elements"
_MAP = "there is no MAP: take a STRUCT with its fields a.b, or a JSON text with json_extract(j, '$.key')"
_STRUCT = "the fields of a STRUCT are taken one by one: a.b"
_JSON = "values are taken out of a JSON text with json_extract(j, '$.a') and json_extract_string(j, '$.a')"
_BITS = "arithmetic on whole numbers: x // 2 shifts to the right, x % 2 is the lowest bit"
_REGULAR = (
    "x LIKE 'a%' and ILIKE, contains(x, 'part'), starts_with(x, 'part'); a regular expression needs CREATE FUNCTION"
)
_SPREAD = "stddev(x) is the sample standard deviation, avg(x) the mean; power(stddev(x), 2) is the variance"
_MOMENTS = "sums give it: count(*), sum(x), sum(x * y), and arithmetic with them in SELECT"
_QUANTILE = "approx_quantile(x, 0.5) is about the median, approx_quantile(x, 0.9) about the ninth decile"
_FIRST = "arg_min(x, ts) is x of the oldest row; first_value(x) OVER (PARTITION BY k ORDER BY ts) stands on each row"
_LAST = "arg_max(x, ts) is x of the newest row; last_value(x) OVER (PARTITION BY k ORDER BY ts) stands on each row"
_FREQUENT = "count(*) GROUP BY x counts each value"
_RANK = "row_number() OVER (PARTITION BY k ORDER BY x) with QUALIFY keeps the first rows of each group"
_LIST_AGGREGATE = (
    "UNNEST the ARRAY in FROM, then aggregate its elements with sum(x), avg(x), min(x), max(x) or count(*)"
)
_SPAN = "a span is written INTERVAL '5 minutes', and a whole number times an INTERVAL is an INTERVAL"
_TIME_TEXT = (
    "CAST(x AS TIMESTAMP) reads a time, CAST(ts AS STRING) writes one, date_part('month', ts) gives a part of it"
)
_TYPE = "EXPLAIN shows the types; CAST(x AS BIGINT) changes them"
_RANDOM = "answers depend on rows alone: give rows a column that was drawn when they were made"
_SESSION = "SET name = value is how a job is set; it has no users, no schemas and no transactions"
_CODE = "texts are compared by their code points; lower(x) compares without regard to case"
_SEQUENCE = "a number in the rows themselves, or row_number() OVER (PARTITION BY k ORDER BY ts)"

#: What to write, by names. A function of the same name in another case is found, too.
_BY_NAME: tuple[tuple[str, str], ...] = (
    # Aggregates
    (_FIRST, "any_value arbitrary first fill"),
    (_LAST, "last latest"),
    (
        _QUANTILE,
        "median quantile quantile_cont quantile_disc percentile_cont percentile_disc percentile reservoir_quantile mad",
    ),
    (_QUANTILE, "approx_percentile percentile_approx"),
    (
        _FREQUENT,
        "mode approx_top_k histogram histogram_exact histogram_values is_histogram_other_bin equi_width_bins entropy",
    ),
    (_SPREAD, "var_samp variance var_pop stddev_pop sem kurtosis kurtosis_pop skewness geomean geometric_mean"),
    (_MOMENTS, "corr covar_pop covar_samp product wavg weighted_avg"),
    ("sum(x) and avg(x), exact but for DOUBLE", "fsum sumkahan kahan_sum favg sum_no_overflow decimal_average"),
    ("count(*) counts rows", "count_star"),
    ("count_if(c)", "countif"),
    ("count_if(NOT c) = 0", "bool_and every logical_and"),
    ("count_if(c) > 0", "bool_or some logical_or"),
    ("array_agg(x)", "list collect_list"),
    ("arg_max(x, y), which passes over rows in which one of them is NULL", "arg_max_null arg_max_nulls_last"),
    ("arg_min(x, y), which passes over rows in which one of them is NULL", "arg_min_null arg_min_nulls_last"),
    ("min(x) and max(x), or array_agg(x) for all values", "lttb bar minmax"),
    ("count_if(x % 2 = 1) counts rows with a bit; sum(x) adds whole numbers", "bit_and bit_or bit_xor bitstring_agg"),
    ("approx_count_distinct(x), count(DISTINCT x)", "approx_distinct"),
    ("EMIT ON CHANGE keeps a total up to date", "finalize combine combine_aggr stats to_aggregate_state vector_type"),
    # Functions with OVER
    (_RANK, "rank dense_rank rank_dense percent_rank cume_dist ntile nth_value"),
    ("lag(x) OVER (PARTITION BY k ORDER BY ts), seen from the later row; later rows are not known yet", "lead"),
    # Numbers
    (
        _OWN,
        "sin cos tan cot asin acos atan atan2 sinh cosh tanh asinh acosh atanh degrees radians gamma lgamma factorial",
    ),
    (_OWN, "gcd lcm greatest_common_divisor least_common_multiple nextafter binom"),
    ("3.141592653589793", "pi"),
    ("power(x, 1.0 / 3) for x of 0 or more", "cbrt"),
    ("floor(x) and ceil(x): CASE WHEN x < 0 THEN ceil(x) ELSE floor(x) END", "trunc truncate"),
    ("round(x) rounds halves away from zero", "even round_even roundbankers"),
    ("x < 0, sign(x)", "signbit"),
    ("power(x, y)", "** ^"),
    ("a + b", "add"),
    ("a - b", "subtract"),
    ("a * b", "multiply"),
    ("a // b cuts towards zero, a / b is a DOUBLE", "divide fdiv decimal_division"),
    ("a % b", "fmod"),
    ("abs(x)", "@"),
    (_OWN, "!__postfix"),
    ("(a AND NOT b) OR (b AND NOT a) for conditions; for bits, arithmetic on whole numbers", "xor"),
    (_BITS, "& | ~ << >> bit_count bit_length bit_position bitstring get_bit set_bit bitstring_byte_comparable"),
    (_RANDOM, "random rand setseed uuid gen_random_uuid uuidv4 uuidv7 uuid_extract_timestamp uuid_extract_version"),
    # Conditions
    ("CASE WHEN c THEN a ELSE b END", "if iff iif switch decode_case"),
    ("coalesce(a, b)", "constant_or_null zeroifnull nvl2"),
    ("a BETWEEN b AND c", "__between"),
    ("x LIKE 'a%'", "~~ like_escape"),
    ("x NOT LIKE 'a%'", "!~~ not_like_escape"),
    ("x ILIKE 'a%'", "~~* ilike_escape"),
    ("x NOT ILIKE 'a%'", "!~~* not_ilike_escape"),
    ("x LIKE 'a%', in which % is any characters and _ is one", "~~~ glob"),
    ("starts_with(x, 'part')", "^@"),
    ("lists are compared element by element: a[1] = b[1]", "&& <@ @> <-> <=>"),
    # Texts
    (_REGULAR, "regexp_matches regexp_full_match regexp_like similar rlike regexp ~ !~"),
    (
        "substr(x, start, length), split_part(x, '-', 1); a regular expression needs CREATE FUNCTION",
        "regexp_extract regexp_extract_all",
    ),
    ("replace(x, 'from', 'to'); a regular expression needs CREATE FUNCTION", "regexp_replace translate overlay"),
    (
        "split_part(x, ',', 1) gives one piece",
        "split str_split string_split string_to_array str_split_regex string_split_regex",
    ),
    ("split_part(x, ',', 1) gives one piece", "regexp_split_to_array regexp_split_to_table unpivot_list"),
    ("replace(x, '%', '') takes signs of patterns away", "regexp_escape"),
    ("concat(a, ',', b), or a || ',' || b", "concat_ws"),
    ("string_agg(x, ',')", "array_to_string array_to_string_comma_default list_string_agg"),
    ("length(x) counts characters", "strlen octet_length length_grapheme"),
    ("left(x, n)", "left_grapheme"),
    ("right(x, n)", "right_grapheme"),
    ("substr(x, start, length)", "substring_grapheme"),
    ("lpad(x, n, fill)", "repeat bin to_binary to_base"),
    ("upper(x), lower(x)", "initcap"),
    ("a || CAST(b AS STRING); round(x, 2) sets digits", "format printf to_char"),
    (
        _OWN_TEXT,
        "ascii ord chr unicode hex to_hex unhex from_hex base64 to_base64 from_base64 unbin from_binary encode decode",
    ),
    (
        _OWN_TEXT,
        "md5 md5_number md5_number_lower md5_number_upper sha1 sha256 hash url_encode url_decode strip_accents nfc_normalize",
    ),
    (_OWN_TEXT, "format_bytes formatReadableSize formatReadableDecimalSize pg_size_pretty parse_formatted_bytes"),
    (_OWN_TEXT, "parse_path parse_dirname parse_dirpath parse_filename path_join hive_partition_component"),
    (
        "a = b, contains(a, b); a distance of texts needs CREATE FUNCTION",
        "levenshtein editdist3 damerau_levenshtein hamming",
    ),
    (
        "a = b, contains(a, b); a distance of texts needs CREATE FUNCTION",
        "mismatches jaccard jaro_similarity jaro_winkler_similarity",
    ),
    (_CODE, "icu_sort_key create_sort_key collations icu_calendar_names"),
    # Time
    (_NOW, "now today current_date current_timestamp get_current_timestamp get_current_time current_localtime"),
    (
        _NOW,
        "current_localtimestamp transaction_timestamp current_time localtimestamp ago unix_timestamp getdate sysdate",
    ),
    ("make_timestamp(n) takes microseconds, epoch_ms(n) milliseconds since 1970", "to_timestamp make_timestamp_ms"),
    (
        "make_timestamp(n) takes microseconds since 1970; times have microseconds",
        "make_timestamp_ns make_timestamptz from_unixtime",
    ),
    ("CAST('2026-01-31' AS DATE), date_trunc('day', ts)", "make_date to_date str_to_date"),
    ("a TIMESTAMP; date_part('hour', ts) is its hour", "make_time"),
    (_TIME_TEXT, "strftime strptime try_strptime date_format monthname dayname"),
    ("ts + INTERVAL '1 day', or a date plus whole days", "date_add dateadd"),
    ("a - b, date_diff('day', a, b)", "age date_sub datesub timestampdiff"),
    ("epoch_us(t), microseconds since 1970; times have no finer part", "epoch_ns nanosecond"),
    ("tumble_start(ts, INTERVAL '5 minutes', INTERVAL '0 seconds'), date_trunc('hour', ts)", "time_bucket date_bin"),
    ("date_trunc('month', ts) is its first day", "last_day days_in_month"),
    ("day(t)", "dayofmonth"),
    ("dayofweek(t)", "weekday"),
    ("date_part('isodow', t)", "isodow"),
    ("week(t)", "weekofyear"),
    ("year(t), week(t)", "yearweek isoyear"),
    ("date_part('decade', t)", "decade"),
    ("date_part('century', t)", "century"),
    ("date_part('millennium', t)", "millennium"),
    ("date_part('millisecond', t)", "millisecond"),
    ("date_part('microsecond', t)", "microsecond"),
    ("year(t)", "era"),
    ("epoch(t), seconds since 1970", "julian"),
    (
        "times are UTC: ts + INTERVAL '1 hour'",
        "timezone timezone_hour timezone_minute timetz_byte_comparable pg_timezone_names",
    ),
    (_SPAN, "normalized_interval"),
    # JSON
    ("json_extract(j, '$.a.b')", "json_extract_path variant_extract"),
    ("json_extract_string(j, '$.a.b')", "->> json_extract_path_text variant_extract_string get_json_object"),
    ("json_extract(j, '$.a') IS NOT NULL", "json_exists variant_exists json_contains variant_contains"),
    ("json_valid(j)", "json"),
    ("json_array_length(j)", "variant_array_length"),
    ("array_agg(x)", "json_group_array"),
    # Arrays, structs
    (_ARRAY, "range generate_series generate_subscripts flatten filter reduce apply aggregate element_at index_key"),
    (_ARRAY, "grade_up repeat_row getvariable array_size"),
    (_STRUCT, "row remap_struct"),
    ("CAST(x AS STRING) = 'name': there is no ENUM", "enum_code enum_first enum_last enum_range enum_range_boundary"),
    ("a STRUCT with one field for each kind, a.b", "union_extract union_tag union_value"),
    (
        _TYPE,
        "typeof pg_typeof get_type make_type type cast_to_type can_cast_implicitly try_cast __cast replace_type alias",
    ),
    (_TYPE, "format_type format_pg_type map_to_pg_oid"),
    # What a database has and a stream has not
    (_SEQUENCE, "nextval currval setval txid_current vertex_extract rowid"),
    (
        _SESSION,
        "current_setting current_user current_role session_user user current_catalog current_database in_search_path",
    ),
    (
        _SESSION,
        "current_schema current_schemas current_query current_query_id current_connection_id current_transaction_id",
    ),
    (
        _SESSION,
        "version user_agent platform show functions extension_versions which_secret checkpoint force_checkpoint write_log",
    ),
    (_SESSION, "invoke metadata_info storage_info verify_parallelism get_block_size add_parquet_key summary sleep_ms"),
    ("WHERE keeps rows for which a condition holds", "assert_true error"),
    (
        _CATALOG,
        "parse_duckdb_log_message col_description obj_description shobj_description truncate_duckdb_logs table_info",
    ),
    (
        _CATALOG,
        "database_list database_size import_database copy_database query query_table test_all_types test_vector_types",
    ),
    (
        _FILES,
        "arrow_scan arrow_scan_dumb pandas_scan parquet_scan seq_scan python_arrow_scan python_map_function sniff_csv",
    ),
    # Known here under another form
    ("UNNEST stands in FROM: FROM orders o, UNNEST(o.items) AS i", "unnest explode"),
    ("a IS NOT DISTINCT FROM b", "IS NOT DISTINCT FROM"),
    ("NOT (a IS NOT DISTINCT FROM b)", "IS DISTINCT FROM"),
)

#: What to write, by the form of a name: for families that DuckDB has in dozens.
_BY_FORM: tuple[tuple[str, str], ...] = (
    (r"(icu_)?collate_\w+", _CODE),
    (r"(read|parquet)_\w+", _FILES),
    (r"(duckdb|pragma|pg)_\w+|has_\w+_privilege|has_foreign_data_wrapper_privilege", _CATALOG),
    (r"(enable|disable)_\w+|show_\w+|inet_\w+|(de|)register_\w+|(create|destroy)_external_\w+", _SESSION),
    (r"json_\w+|variant_\w+|row_to_json|array_to_json|from_json\w*|to_json", _JSON),
    (r"map(_\w+)?", _MAP),
    (r"struct_\w+", _STRUCT),
    (
        r"to_(centuries|days|decades|hours|microseconds|millennia|milliseconds|minutes|months|quarters|seconds|weeks|years)",
        _SPAN,
    ),
    (
        r"list_(any_value|approx_count_distinct|avg|bit_\w+|bool_\w+|count|entropy|first|histogram|kurtosis\w*|last|mad|max)",
        _LIST_AGGREGATE,
    ),
    (r"list_(median|min|mode|product|sem|skewness|stddev_\w+|sum|var_\w+|aggr\w*)|array_aggr\w*", _LIST_AGGREGATE),
    (r"(list|array)_\w+", _ARRAY),
    (r"regr_\w+", _MOMENTS),
    (r"st_\w+", _OWN_TEXT),
    (r"__\w+", "a function that only DuckDB itself calls; CAST(x AS BIGINT) changes a type"),
)

_NAMES: dict[str, str] = {}
for _hint, _names in _BY_NAME:
    for _name in [_names] if " " in _names and _names.isupper() else _names.split():
        _NAMES[_name.lower()] = _hint


def instead(name: str) -> str | None:
    """What to write instead of a function that this language does not have; None: the name is unknown.

    >>> instead("median")
    'approx_quantile(x, 0.5) is about the median, approx_quantile(x, 0.9) about the ninth decile'
    """
    known = _NAMES.get(name.lower())
    if known is not None:
        return known
    return next((hint for form, hint in _BY_FORM if re.fullmatch(form, name.lower())), None)
