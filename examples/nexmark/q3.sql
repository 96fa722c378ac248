-- data: eddyline generate nexmark --out data --rate 1000 --seconds 60
-- Persons of three states with their auctions of a category, without windows.
CREATE STREAM person (id BIGINT, name STRING, email STRING, credit_card STRING, city STRING, state STRING, ts TIMESTAMP, extra STRING)
  WITH (format = 'parquet', path = 'data/person', time = 'ts');
CREATE STREAM auction (id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT, ts TIMESTAMP, expires TIMESTAMP, seller BIGINT,
  category BIGINT, extra STRING) WITH (format = 'parquet', path = 'data/auction', time = 'ts');

CREATE QUERY q3 AS
  SELECT p.name, p.city, p.state, a.id FROM auction a JOIN person p ON a.seller = p.id WHERE a.category = 10 AND p.state IN ('or', 'id', 'ca');
