// What starts by itself: when next, how the last run ended, and what was missed.
import { useEffect, useState } from 'preact/hooks';
import { ask } from '../api/client';
import type { Run, Schedule } from '../api/types';
import { Dialog } from '../parts/dialog';
import { Top } from '../parts/frame';
import { Mark, Pill } from '../parts/mark';
import { usePolled } from '../parts/polled';
import { Time, Took } from '../parts/time';
import { now } from '../state/clock';
import { can } from '../state/me';
import { nav } from '../state/nav';
import { href } from '../state/route';
import { toast } from '../state/toasts';
import { plain } from '../text';
import { count, left } from '../time';

export function Schedules() {
  const { data, problem } = usePolled<{ schedules: Schedule[]; problems: string[]; next: string }>('schedules', 2000);
  useEffect(() => {
    if (data) nav.value = { ...nav.value, schedules: `${count(data.schedules.length)}${data.next ? '+' : ''}` };
  }, [data]);
  return (
    <>
      <Top title="Schedules" />
      {[...(problem ? [problem.message] : []), ...(data?.problems ?? [])].map((text) => (
        <p class="notice is-failed" role="alert">
          <Mark status="failed" />
          <span class="text">{plain(text)}</span>
        </p>
      ))}
      {data && !data.schedules.length && !data.problems.length && (
        <div class="card empty">
          <h2>Nothing starts by itself yet</h2>
          <p>Declare a schedule in your app. The next worker that starts takes it up.</p>
          <pre tabIndex={0} aria-label="code">{'nightly = Schedule("nightly", reprice([]), cron="0 3 * * *", tz="Europe/Berlin")\napp = App(workflows=[reprice], schedules=[nightly])'}</pre>
        </div>
      )}
      {data && data.schedules.length > 0 && (
        <div class="card">
          {data.schedules.map((one) => (
            <Line key={one.name} schedule={one} />
          ))}
        </div>
      )}
      {data?.next && (
        <p class="soft">
          The first {count(data.schedules.length)} by name. All of them: <span class="mono">holdfast schedules</span>
        </p>
      )}
    </>
  );
}

function Line({ schedule }: { schedule: Schedule }) {
  return (
    <section class="schedule" aria-label={plain(schedule.name)}>
      <div>
        <a class="id text" href={href('schedules', { name: schedule.name })}>
          {plain(schedule.name)}
        </a>
        <div class="small dim text">starts {plain(schedule.workflow)}</div>
      </div>
      <div>
        <span class="text">{plain(schedule.in_words)}</span>
        <div class="small">
          <Next schedule={schedule} />
        </div>
      </div>
      <div>
        {schedule.last_run ? (
          <>
            <span class="crumb">
              {schedule.last_status && <Mark status={schedule.last_status} />}
              <a class="id text" href={href('run', { id: schedule.last_run })}>
                {plain(schedule.last_run)}
              </a>
            </span>
            <div class="small dim">{schedule.last_status || 'no longer kept'}</div>
          </>
        ) : (
          <span class="dim">no slot has come yet</span>
        )}
        <Lost schedule={schedule} />
      </div>
      <Acts schedule={schedule} />
    </section>
  );
}

function Next({ schedule }: { schedule: Schedule }) {
  if (schedule.paused)
    return (
      <>
        <Pill status="paused" /> <span class="text soft">{plain(schedule.reason)}</span>
      </>
    );
  return (
    <>
      {schedule.next ? (
        <span class="soft">
          next <Time at={schedule.next} />, in {left(Date.parse(schedule.next), now.value)}
        </span>
      ) : (
        <span class="dim">over: no slot is left</span>
      )}
      {!schedule.is_declared && <div class="error-text">no live worker declares it: start one, or remove it</div>}
    </>
  );
}

function Lost({ schedule }: { schedule: Schedule }) {
  const parts = [schedule.missed && `${count(schedule.missed)} missed`, schedule.skipped && `${count(schedule.skipped)} skipped`, schedule.buffered && `${count(schedule.buffered)} waiting`].filter(Boolean);
  return parts.length ? <div class={`small ${schedule.missed ? 'error-text' : 'soft'}`}>{parts.join(', ')}</div> : null;
}

type Verb = 'pause' | 'resume' | 'trigger';
const ACTS: Record<Verb, [string, string]> = {
  pause: ['Pause', 'It takes no slot until you resume it. Runs that are open continue.'],
  resume: ['Resume', 'It takes slots again from now on. Those of the pause are not made up for.'],
  trigger: ['Trigger', 'A run starts now, beside the timetable.'],
};

function Acts({ schedule }: { schedule: Schedule }) {
  const [verb, setVerb] = useState<Verb | null>(null);
  const [reason, setReason] = useState('');
  const offered = (['trigger', schedule.paused ? 'resume' : 'pause'] as const).filter((one) => can(one) && (one !== 'pause' || schedule.next));
  const perform = async () => {
    const query = new URLSearchParams({ name: schedule.name });
    const answer = await ask<{ run?: string }>(`schedule/${verb}`, { query, method: 'POST', body: verb === 'pause' ? { reason } : {} });
    toast(answer.run ? `started ${answer.run}` : `${schedule.name}: ${verb === 'pause' ? 'paused' : 'resumed'}`);
  };
  return (
    <div class="acts">
      {offered.map((one) => (
        <button class="btn" onClick={() => setVerb(one)}>
          {ACTS[one][0]}
        </button>
      ))}
      {verb && (
        <Dialog title={`${ACTS[verb][0]} ${plain(schedule.name)}?`} verb={ACTS[verb][0]} close={() => setVerb(null)} act={perform}>
          <p class="soft">{ACTS[verb][1]}</p>
          {verb === 'pause' && (
            <label class="line">
              <span>Reason</span>
              <input class="field" autofocus value={reason} onInput={(event) => setReason(event.currentTarget.value)} placeholder="shown to everyone who looks at it" />
            </label>
          )}
        </Dialog>
      )}
    </div>
  );
}

export function SchedulePage({ name }: { name: string }) {
  const { data, problem } = usePolled<{ schedule: Schedule; runs: Run[] }>('schedule', 2000, new URLSearchParams({ name }).toString());
  if (problem)
    return (
      <div class="card empty">
        <h2>{problem.title}</h2>
        <p class="text">{plain(problem.detail)}</p>
      </div>
    );
  if (!data) return null;
  return (
    <>
      <Top title={plain(name)} />
      <div class="card">
        <Line schedule={data.schedule} />
      </div>
      {data.schedule.upcoming.length > 0 && (
        <div class="card">
          <h2>Next</h2>
          <ol class="times" aria-label="next times">
            {data.schedule.upcoming.map((at) => (
              <li class="num">
                <Time at={at} /> <span class="dim">in {left(Date.parse(at), now.value)}</span>
              </li>
            ))}
          </ol>
        </div>
      )}
      <div class="card">
        <h2>Last runs</h2>
        {data.runs.length === 0 && <p class="pad dim">None yet. Trigger starts one now.</p>}
        <ol class="times" aria-label="last runs">
          {data.runs.map((run) => (
            <li>
              <span class="crumb">
                <Mark status={run.status} />
                <a class="id text" href={href('run', { id: run.id })}>
                  {plain(run.id)}
                </a>
              </span>{' '}
              <span class="dim">
                {run.status}, <Took from={run.started_at} to={run.ended_at} />
              </span>
            </li>
          ))}
        </ol>
      </div>
    </>
  );
}
