-- Tables of schema 2. Code for schema 1 still works: it writes run_blobs without a source.

-- Which part of a run refers to a blob: `source` is row (of the ordinal `number`), message (of that number), value (of that
-- name) or snapshot; a reference is removed with its source. References of older runs stay until the run is removed
-- (`source` run): their rows are not read again.
ALTER TABLE run_blobs ADD COLUMN source text NOT NULL DEFAULT 'run';
ALTER TABLE run_blobs ADD COLUMN number bigint NOT NULL DEFAULT 0;
ALTER TABLE run_blobs ADD COLUMN name text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE run_blobs DROP CONSTRAINT run_blobs_pkey;
ALTER TABLE run_blobs ADD PRIMARY KEY (run, source, number, name, blob);

-- Whether the value that is shown has references.
ALTER TABLE exposed ADD COLUMN refers boolean NOT NULL DEFAULT false;

-- They searched stored bodies for names.
DROP FUNCTION IF EXISTS compact(bigint, bigint, bigint, bigint, bigint, bytea, integer, bytea, bytea[]);
DROP FUNCTION IF EXISTS _refer_anew(bigint, bigint);
DROP FUNCTION IF EXISTS _names_in(bytea);
DROP FUNCTION IF EXISTS _refer(bigint, jsonb);
