-- Tables of schema 3. Code for schema 2 still works: it starts no run with a unique value.

-- For each workflow and unique value, the run that had it last: it keeps the value until it ends. A separate table, so that
-- runs without such a value, and ends of runs, cost nothing more.
CREATE TABLE uniques (
    workflow text COLLATE "C" NOT NULL,
    value text COLLATE "C" NOT NULL,
    run bigint NOT NULL,
    PRIMARY KEY (workflow, value)
);
CREATE INDEX uniques_by_run ON uniques (run);
