-- The tables of the second number. Code of the first number still runs: it writes run_blobs without a source.

-- What of a run refers to a blob: `source` is row (of the ordinal `number`), message (of that number), value (of that
-- name) or snapshot; each goes with its source. Of a run that was there before, all it refers to stays until the run goes
-- (`source` run): nobody looks into its rows again.
ALTER TABLE run_blobs ADD COLUMN source text NOT NULL DEFAULT 'run';
ALTER TABLE run_blobs ADD COLUMN number bigint NOT NULL DEFAULT 0;
ALTER TABLE run_blobs ADD COLUMN name text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE run_blobs DROP CONSTRAINT run_blobs_pkey;
ALTER TABLE run_blobs ADD PRIMARY KEY (run, source, number, name, blob);

-- Whether the value that is shown has references.
ALTER TABLE exposed ADD COLUMN refers boolean NOT NULL DEFAULT false;

-- They looked for names in what is stored.
DROP FUNCTION IF EXISTS compact(bigint, bigint, bigint, bigint, bigint, bytea, integer, bytea, bytea[]);
DROP FUNCTION IF EXISTS _refer_anew(bigint, bigint);
DROP FUNCTION IF EXISTS _names_in(bytea);
DROP FUNCTION IF EXISTS _refer(bigint, jsonb);
