-- data: eddyline generate nexmark --out data --rate 1000 --seconds 60
-- Persons that came and opened an auction in the same ten seconds.
CREATE STREAM person (id BIGINT, name STRING, email STRING, credit_card STRING, city STRING, state STRING, ts TIMESTAMP, extra STRING)
  WITH (format = 'parquet', path = 'data/person', time = 'ts');
CREATE STREAM auction (id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT, ts TIMESTAMP, expires TIMESTAMP, seller BIGINT,
  category BIGINT, extra STRING) WITH (format = 'parquet', path = 'data/auction', time = 'ts');

CREATE QUERY q8 AS
  WITH
    p AS (SELECT id, name, window_start AS starts FROM person GROUP BY TUMBLE(ts, '10 seconds'), id, name),
    a AS (SELECT seller, window_start AS starts FROM auction GROUP BY TUMBLE(ts, '10 seconds'), seller)
  SELECT p.id, p.name, p.starts FROM p [RANGE 1 MICROSECOND], a [RANGE 1 MICROSECOND] WHERE p.id = a.seller AND p.starts = a.starts;
