// One step: what it was given, what came of it, every attempt and why it failed. Or one fact of the journal, whole.
import { useEffect, useState } from 'preact/hooks';
import { ask, ofRun, Problem } from '../api/client';
import type { Attempt, Entry, StepDetail } from '../api/types';
import { Mark, Pill } from '../parts/mark';
import { Time, Took } from '../parts/time';
import { FailureText, Value, type Source } from '../parts/value';
import { current, now } from '../state/clock';
import { go, href, hrefWith } from '../state/route';
import { plain } from '../text';
import { left } from '../time';
import { factOf } from './facts';
import { opened } from './journal';
import type { LiveRun } from './live';

const STATUS: Record<string, string> = { completed: 'completed', failed: 'failed', open: 'running', abandoned: 'cancelled', left: 'cancelled', 'cut off': 'paused', 'not begun': 'pending' };
export const statusOf = (outcome: string): string => STATUS[outcome] ?? (outcome === 'woke' || outcome === 'received' || outcome === 'over' ? 'completed' : 'pending');

export function Inspector({ live, step }: { live: LiveRun; step: string }) {
  const [detail, setDetail] = useState<StepDetail | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const entries = live.story.value!.timeline.filter((entry) => entry.key === step);
  const turns = live.turns.value;
  useEffect(() => {
    const controller = new AbortController();
    const [path, query] = ofRun(live.id, 'steps', { key: step });
    ask<StepDetail>(path, { query, signal: controller.signal }).then(
      (found) => {
        setDetail(found);
        setProblem(null);
      },
      (error: unknown) => error instanceof Problem && (setDetail(null), setProblem(error)),
    );
    return () => controller.abort();
  }, [step, turns]);
  const last = entries.at(-1);
  return (
    <section class="card inspector" aria-label={`step ${plain(step)}`}>
      <h2>
        <span class="id clip text" title={plain(step)}>
          {plain(step)}
        </span>
        {detail ? <Pill status={detail.retry_at ? 'running' : statusOf(detail.outcome)}>{detail.retry_at ? 'retrying' : detail.outcome === 'open' ? 'running' : detail.outcome}</Pill> : last && <Pill status={statusOf(last.outcome ?? '')}>{last.outcome || last.kind}</Pill>}
        <button class="btn bare" aria-label="close" onClick={() => go(hrefWith({ step: null }))}>
          ×
        </button>
      </h2>
      <div class="body">
        {detail && detail.key === step ? <Detail detail={detail} run={live.id} /> : problem?.status === 404 ? <Waits entries={entries} /> : problem && <p class="error-text">{problem.message}</p>}
        {opened.value && <Fact run={live.id} />}
      </div>
    </section>
  );
}

function Detail({ detail, run }: { detail: StepDetail; run: string }) {
  const { place } = detail;
  return (
    <>
      {detail.attempts.map((attempt) => (
        <OneAttempt attempt={attempt} of={detail.of} />
      ))}
      {detail.retry_at && (
        <div class="attempt">
          <Mark status="pending" />
          <span>attempt {detail.attempts.length + 1} is due {Date.parse(detail.retry_at) > current() ? `in ${left(Date.parse(detail.retry_at), now.value)}` : 'now'}</span>
          <span class="num dim">
            <Time at={detail.retry_at} />
          </span>
        </div>
      )}
      <dl>
        {detail.failure && (
          <>
            <dt>error</dt>
            <dd>
              <FailureText failure={detail.failure} />
            </dd>
          </>
        )}
        <dt>input</dt>
        <dd>
          <Value value={detail.input} run={run} label="input" source={payloadOf(detail, 'step')} />
        </dd>
        {detail.outcome === 'completed' && (
          <>
            <dt>output</dt>
            <dd>
              <Value value={detail.output} run={run} label="output" source={payloadOf(detail, 'done')} />
            </dd>
          </>
        )}
        {detail.attempts.filter((one) => one.failure && one.failure.message !== detail.failure?.message).slice(-1).map((one) => (
          <>
            <dt>error of attempt {one.attempt}</dt>
            <dd>
              <FailureText failure={one.failure!} />
            </dd>
          </>
        ))}
        {place && (
          <>
            <dt>code</dt>
            <dd class="mono text">
              {plain(place.name)}{' '}
              <span class="dim" title={plain(place.file)}>
                {plain(place.file.split(/[/\\]/).at(-1)!)}:{place.line}
              </span>
            </dd>
          </>
        )}
        <dt>idempotency key</dt>
        <dd class="mono text">{plain(detail.idempotency_key)}</dd>
        {detail.undoes && (
          <>
            <dt>undoes</dt>
            <dd class="mono text">{plain(detail.undoes)}</dd>
          </>
        )}
      </dl>
    </>
  );
}

/** The payload of one of the step's facts. */
function payloadOf(detail: StepDetail, type: string): Source | undefined {
  const blob = detail.events.findLast((event) => event.type === type)?.data['blob'];
  return typeof blob === 'string' ? { blob } : undefined;
}

function OneAttempt({ attempt, of }: { attempt: Attempt; of: number | null }) {
  return (
    <div class="attempt">
      <Mark status={statusOf(attempt.outcome)} />
      <span>
        attempt {attempt.attempt}
        {of ? ` of ${of}` : ''} · {attempt.outcome === 'open' ? 'running' : attempt.outcome}
        <span class="dim"> · {plain(attempt.worker)}</span>
      </span>
      <span class="num dim">
        <Time at={attempt.at} /> {(attempt.ended_at || attempt.outcome === 'open') && <>· <Took from={attempt.at} to={attempt.ended_at} /></>}
      </span>
      {attempt.failure && (
        <span class="error-text text">
          {plain(attempt.failure.type)}: {plain(attempt.failure.message.split('\n')[0]!)}
        </span>
      )}
    </div>
  );
}

/** What is no step: a sleep, a wait, a child. */
function Waits({ entries }: { entries: Entry[] }) {
  return (
    <>
      {entries.map((entry) => (
        <div class="attempt">
          <Mark status={statusOf(entry.outcome ?? '')} />
          <span class="text">
            {plain(entry.text)}
            {entry.kind === 'child' && entry.run && (
              <>
                {' '}
                <a class="id" href={href('run', { id: entry.run })}>
                  → {plain(entry.run)}
                </a>
              </>
            )}
          </span>
          <span class="num dim">
            <Time at={entry.at} />
          </span>
        </div>
      ))}
    </>
  );
}

function Fact({ run }: { run: string }) {
  const event = opened.value!;
  return (
    <dl>
      <dt>
        <span>
          fact: {factOf(event)[0]}, row {event.ordinal}
        </span>
        <button class="btn bare" aria-label="close the fact" onClick={() => (opened.value = null)}>
          ×
        </button>
      </dt>
      <dd>
        <Value value={event.data} run={run} label="fact" />
        {typeof event.data['blob'] === 'string' && event.data['blob'] && <Value value={{ $large: true, size: 0 }} run={run} label="payload" source={{ blob: event.data['blob'] }} />}
      </dd>
    </dl>
  );
}
