// The sentence first: what the run does, until when, and what it needs.
import type { Occupation, Story } from '../api/types';
import { isOpen } from '../api/types';
import { now } from '../state/clock';
import { href, hrefWith } from '../state/route';
import { plain } from '../text';
import { count, instant, local, took } from '../time';
import { FAR, phrase } from '../words';
import { doingText } from '../parts/doing';
import { Time, Took } from '../parts/time';

export function Headline({ story }: { story: Story }) {
  const { run } = story;
  if (!isOpen(run)) return <Ended story={story} />;
  const [first, ...others] = run.doing.now;
  const items = story.exposed['holdfast.items'] as Record<string, number> | undefined;
  if (items?.['total'] !== undefined && first?.kind === 'child')
    return (
      <p class="now" role="status">
        {count(items['completed'] ?? 0)} of {count(items['total'])} items completed
        {(['running', 'failed', 'cancelled'] as const).map((name) => (items[name] ? <span class="soft">, {count(items[name])} {name}</span> : null))}
      </p>
    );
  if (!first || run.damage.length)
    return <p class="now text">{plain(doingText(run, now.value)) || 'between two steps'}</p>;
  return (
    <>
      <p class="now" role="status">
        <Phrase occupation={first} />
        {others.map((one) => (
          <span class="soft">
            {'; '}
            <Phrase occupation={one} />
          </span>
        ))}
        {run.doing.more > 0 && <em> and {run.doing.more} more</em>}
        {run.note && <em> ({plain(run.note)})</em>}
      </p>
      <Countdown occupation={first} since={run.updated_at} />
    </>
  );
}

/** What comes from outside the run: there is no step to link to. */
const AWAITED = new Set(['signal', 'topic', 'update']);

/** The phrase with its name set as code and a link to the step. */
function Phrase({ occupation }: { occupation: Occupation }) {
  const detail = ['retry', 'pass', 'paused'].includes(occupation.kind) ? (occupation.detail ?? '') : '';
  let text = phrase({ ...occupation, detail: detail ? '' : (occupation.detail ?? '') }, now.value);
  if (occupation.kind === 'sleep' && occupation.until) {
    const at = instant(occupation.until)!;
    text = text.replace(/until .*? UTC/, `until ${local(at, now.value)}`);
  }
  const name = occupation.kind === 'step' || occupation.kind === 'retry' || AWAITED.has(occupation.kind) || occupation.kind === 'child' ? occupation.name : '';
  const place = name ? text.indexOf(name) : -1;
  const rest = place < 0 ? plain(text) : plain(text.slice(place + name.length));
  const inner = <span class="mono text">{plain(name)}</span>;
  const target = occupation.kind === 'child' ? href('run', { id: occupation.detail }) : hrefWith({ step: occupation.name });
  return (
    <span>
      {place > 0 && capital(text.slice(0, place))}
      {place >= 0 && (AWAITED.has(occupation.kind) ? inner : <a href={target}>{inner}</a>)}
      <span class="left">{place < 0 ? capital(rest) : rest}</span>
      {detail && <em class="text">. {plain(detail)}</em>}
    </span>
  );
}

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** How much of the wait is over. */
function Countdown({ occupation, since }: { occupation: Occupation; since: string }) {
  const until = instant(occupation.until);
  const from = instant(since)!;
  if (until === null || until <= now.value || until <= from || (occupation.kind === 'child' && until - now.value > FAR)) return null;
  const share = Math.min(1, Math.max(0, (now.value - from) / (until - from)));
  return (
    <div class="countdown" aria-hidden="true">
      <span style={{ width: `${share * 100}%` }} />
    </div>
  );
}

function Ended({ story }: { story: Story }) {
  const { run, failure } = story;
  const ms = run.ended_at ? Date.parse(run.ended_at) - Date.parse(run.started_at ?? run.created_at) : 0;
  return (
    <p class="now">
      {capital(run.status)} after {took(Math.max(0, ms))}.{' '}
      {run.status === 'failed' && <em class="error-text text">{failure ? `${plain(failure.type)}: ${plain(failure.message.split('\n')[0]!)}` : plain(run.error)}</em>}
      {run.status === 'cancelled' && run.error && <em class="text">{plain(run.error)}</em>}
      {story.crashes.length > 0 && run.status === 'completed' && <em>It survived {story.crashes.length === 1 ? 'a crash' : `${story.crashes.length} crashes`}.</em>}
    </p>
  );
}

export function Facts({ story }: { story: Story }) {
  const { run } = story;
  return (
    <div class="facts">
      <span>
        workflow{' '}
        <a href={href('workflow', { name: run.workflow })}>
          <b>
            {plain(run.workflow)}
            {run.version && ` v${plain(run.version)}`}
          </b>
        </a>
      </span>
      <span>
        started{' '}
        <b>
          <Time at={run.started_at ?? run.created_at} />
        </b>
      </span>
      <span>
        {run.ended_at ? 'took' : 'running for'}{' '}
        <b>
          <Took from={run.started_at ?? run.created_at} to={run.ended_at} />
        </b>
      </span>
      {run.worker && (
        <span>
          {run.is_held ? 'held by' : 'last held by'} <b>{plain(run.worker)}</b>, epoch {run.epoch}
        </span>
      )}
      <span>
        queue <b>{plain(run.queue)}</b>
      </span>
      {run.deadline && (
        <span>
          deadline{' '}
          <b>
            <Time at={run.deadline} />
          </b>
        </span>
      )}
      {run.parent && (
        <span>
          child of{' '}
          <a href={href('run', { id: run.parent })}>
            <b class="text">{plain(run.parent)}</b>
          </a>
        </span>
      )}
      {story.retried_from && (
        <span>
          retry of{' '}
          <a href={href('run', { id: story.retried_from })}>
            <b class="text">{plain(story.retried_from)}</b>
          </a>
        </span>
      )}
      {story.redacted?.map((said) => (
        <span>
          redacted <b class="text">{plain(said)}</b>
        </span>
      ))}
      {shownBy(story).map(([name, value]) => (
        <span>
          {plain(name)} <b class="text">{shown(value)}</b>
        </span>
      ))}
      {Object.entries(run.attributes).map(([name, value]) => (
        <span>
          {plain(name)}{' '}
          <a href={href('', { attribute: `${name}=${value}` })}>
            <b class="text">{plain(value)}</b>
          </a>
        </span>
      ))}
    </div>
  );
}

/** The values the run shows; those of Holdfast's own have a page of their own. */
export const shownBy = (story: Story): [string, unknown][] => Object.entries(story.exposed).filter(([name]) => !name.startsWith('holdfast.'));

function shown(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
  return plain(text.length > 80 ? `${text.slice(0, 79)}…` : text);
}

