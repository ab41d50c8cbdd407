// What starts by itself: when next, how the last run ended, and what was missed.
import { useEffect, useState } from 'preact/hooks';
import { ask } from '../api/client';
import type { Run, Schedule } from '../api/types';
import { Dialog } from '../parts/dialog';
import { Top } from '../parts/frame';
import { Mark, Pill } from '../parts/mark';
import { usePolled } from '../parts/polled';
import { Time, Took } from '../parts/time';
import { hasNothing, Instead } from '../parts/trouble';
import { now } from '../state/clock';
import { can } from '../state/me';
import { nav } from '../state/nav';
import { go, href } from '../state/route';
import { toast } from '../state/toasts';
import { plain } from '../text';
import { clock, count, left, local, utc } from '../time';

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

function Line({ schedule, isWhole }: { schedule: Schedule; isWhole?: boolean }) {
  return (
    <section class={`schedule ${isWhole ? 'whole' : ''}`} aria-label={plain(schedule.name)}>
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
      <Acts schedule={schedule} isWhole={isWhole ?? false} />
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

type Act = 'pause' | 'resume' | 'trigger' | 'remove';
const ACTS: Record<Act, [string, string]> = {
  pause: ['Pause', 'It takes no slot until you resume it. Runs that are open continue.'],
  resume: ['Resume', 'It takes slots again from now on. Those of the pause are not made up for.'],
  trigger: ['Trigger', 'A run starts now, beside the timetable.'],
  remove: ['Remove', 'It starts nothing any more. Its runs stay. If an app declares it, the next worker that starts brings it back.'],
};
const DONE: Record<string, string> = { pause: 'paused', resume: 'resumed', remove: 'removed' };

function Acts({ schedule, isWhole }: { schedule: Schedule; isWhole: boolean }) {
  const [verb, setVerb] = useState<Act | null>(null);
  const [isBackfill, setBackfill] = useState(false);
  const [reason, setReason] = useState('');
  const [id, setId] = useState<string | undefined>(); // of one trigger: asked again after a lost answer, it starts no second run
  const open = (one: Act) => {
    setVerb(one);
    setId(crypto.randomUUID?.());
  };
  const fits = (one: Act) => can(one) && (one !== 'pause' || Boolean(schedule.next)) && (one !== 'remove' || !schedule.is_declared);
  const offered = (['trigger', schedule.paused ? 'resume' : 'pause', 'remove'] as const).filter(fits);
  const perform = async () => {
    const query = new URLSearchParams({ name: schedule.name });
    if (verb === 'remove') {
      await ask('schedule', { query, method: 'DELETE' });
      toast(`${schedule.name}: removed`);
      go(href('schedules'));
      return;
    }
    const answer = await ask<{ run?: string }>(`schedule/${verb}`, { query, method: 'POST', body: verb === 'pause' ? { reason } : verb === 'trigger' ? { id } : {} });
    toast(answer.run ? `started ${answer.run}` : `${schedule.name}: ${DONE[verb!]}`);
  };
  return (
    <div class="acts">
      {offered.map((one) => (
        <button class={`btn ${one === 'remove' ? 'danger' : ''}`} onClick={() => open(one)}>
          {ACTS[one][0]}
        </button>
      ))}
      {isWhole && can('backfill') && (
        <button class="btn" onClick={() => setBackfill(true)}>
          Backfill
        </button>
      )}
      {isBackfill && <Backfill schedule={schedule} close={() => setBackfill(false)} />}
      {verb && (
        <Dialog title={`${ACTS[verb][0]} ${plain(schedule.name)}?`} verb={ACTS[verb][0]} isDangerous={verb === 'remove'} close={() => setVerb(null)} act={perform}>
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

/** For a field of local date and time. */
const field = (at: number) => new Date(at - new Date(at).getTimezoneOffset() * 60_000).toISOString().slice(0, 16);

/** Starts the slots of a time that is past: of an outage, or of the days before there was a schedule. */
function Backfill({ schedule, close }: { schedule: Schedule; close: () => void }) {
  const [since, setSince] = useState(field(now.value - 86_400_000));
  const [until, setUntil] = useState(field(now.value));
  const [most, setMost] = useState('100');
  const perform = async () => {
    const body = { since: new Date(since).toISOString(), until: new Date(until).toISOString(), most: Number(most) };
    const { slots } = await ask<{ slots: { run: string; fate: string }[] }>('schedule/backfill', { query: new URLSearchParams({ name: schedule.name }), method: 'POST', body });
    const fates = ['started', 'buffered', 'skipped'].map((fate) => [slots.filter((one) => one.fate === fate).length, fate === 'buffered' ? 'waiting' : fate] as const);
    toast(slots.length ? `${schedule.name}: ${fates.filter(([found]) => found).map(([found, fate]) => `${count(found)} ${fate}`).join(', ')}` : `${schedule.name}: no slot in that time`);
  };
  return (
    <Dialog title={`Backfill ${plain(schedule.name)}?`} verb="Backfill" isDisabled={!since || !until || !(Number(most) >= 1)} close={close} act={perform}>
      <p class="soft">Each slot of this time starts a run, as if it were due now. A slot is backfilled once. Overlap: {schedule.overlap.replace('_', ' ')}.</p>
      <div class="form two-wide">
        <label class="line">
          <span>From</span>
          <input class="field" type="datetime-local" autofocus value={since} onInput={(event) => setSince(event.currentTarget.value)} />
        </label>
        <label class="line">
          <span>Until</span>
          <input class="field" type="datetime-local" value={until} onInput={(event) => setUntil(event.currentTarget.value)} />
        </label>
      </div>
      <label class="line">
        <span>At most</span>
        <input class="field" type="number" min="1" max="1000" value={most} onInput={(event) => setMost(event.currentTarget.value)} />
        <span class="small dim">slots; if there are more, none starts</span>
      </label>
    </Dialog>
  );
}

/** When the slot of a run was: its id ends with it. */
const slotOf = (run: Run): number => {
  const named = Date.parse(/\d{4}-\d\d-\d\dT\S+$/.exec(run.id)?.[0] ?? '');
  return Number.isNaN(named) ? Date.parse(run.created_at) : named;
};

/** Slots in a line: what became of the last ones, and when the next are. */
function Slots({ schedule, runs }: { schedule: Schedule; runs: Run[] }) {
  const past = [...runs].sort((a, b) => slotOf(a) - slotOf(b));
  const instants = [...past.map(slotOf), ...schedule.upcoming.map((at) => Date.parse(at))];
  const isDense = instants.some((at, place) => place > 0 && at - instants[place - 1]! < 60_000);
  const when = (at: number) => (
    <time dateTime={new Date(at).toISOString()} title={utc(at)}>
      {isDense ? clock(at) : clock(at).slice(0, 5)}
      <span class="dim">{local(at, 0).slice(5, 10)}</span>
    </time>
  );
  return (
    <ol class="slots" aria-label="slots" tabIndex={0}>
      {past.map((run) => (
        <li class={`is-${run.status}`}>
          <a href={href('run', { id: run.id })} aria-label={`${plain(run.id)}: ${run.status}`} title={`${plain(run.id)}: ${run.status}`}>
            <Mark status={run.status} size={18} />
          </a>
          {when(slotOf(run))}
        </li>
      ))}
      <li class="now-slot" aria-label="now">
        now
      </li>
      {schedule.upcoming.map((at) => (
        <li class="to-come">
          <i title={`in ${left(Date.parse(at), now.value)}`} />
          {when(Date.parse(at))}
        </li>
      ))}
    </ol>
  );
}

export function SchedulePage({ name }: { name: string }) {
  const { data, problem } = usePolled<{ schedule: Schedule; runs: Run[] }>('schedule', 2000, new URLSearchParams({ name }).toString());
  if (hasNothing(data, problem)) return <Instead problem={problem} />;
  return (
    <>
      <Top title={plain(name)} of="schedules" />
      <div class="card">
        <Line schedule={data.schedule} isWhole />
      </div>
      {data.runs.length + data.schedule.upcoming.length > 0 && (
        <div class="card">
          <h2>Slots</h2>
          <Slots schedule={data.schedule} runs={data.runs} />
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
