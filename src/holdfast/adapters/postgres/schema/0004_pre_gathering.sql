-- Whether the run that has a unique value takes the inputs of further starts before it begins: `room` for how many more
-- (-1: any number; null: it takes none), and when it begins at the latest.
ALTER TABLE uniques ADD COLUMN room bigint;
ALTER TABLE uniques ADD COLUMN latest bigint;

-- The outcome of a start that may join another run (`_join`).
CREATE TYPE _joining AS (is_joined boolean, hints text[]);
