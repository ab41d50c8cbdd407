-- The tables of the third number. Code of the second number still runs: it starts no run with a unique value.

-- Of each workflow and unique value the run that had it last: it has it until it ends. Beside the runs, so that neither a
-- run without such a value nor the end of any run costs more.
CREATE TABLE uniques (
    workflow text COLLATE "C" NOT NULL,
    value text COLLATE "C" NOT NULL,
    run bigint NOT NULL,
    PRIMARY KEY (workflow, value)
);
CREATE INDEX uniques_by_run ON uniques (run);
