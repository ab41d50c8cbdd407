-- The tables of the fourth number. Code of the third number still runs: it knows no updates, and a run that is asked one
-- waits for a worker of the fourth.

-- Questions to runs, each with its outcome: kept as long as the run, so that a caller can always find the answer. `asked`: the hash of the question's value; an empty `outcome`: it is open.
CREATE TABLE answers (
    run bigint NOT NULL,
    message text COLLATE "C" NOT NULL,
    asked bytea NOT NULL,
    outcome text NOT NULL,
    value bytea NOT NULL,
    blob text NOT NULL,
    checksum bytea NOT NULL,
    PRIMARY KEY (run, message)
);
