// Times that tick by themselves: only these small parts render each second.
import { now } from '../state/clock';
import { age, duration, instant, local, took, utc } from '../time';

/** A local time; UTC on hover. */
export function Time({ at }: { at: string | null | undefined }) {
  const value = instant(at);
  if (value === null) return null;
  return (
    <time dateTime={at!} title={utc(value)}>
      {local(value, now.value)}
    </time>
  );
}

export function Age({ at, isAgo }: { at: string; isAgo?: boolean }) {
  const value = instant(at)!;
  const text = age(now.value - value);
  return (
    <time dateTime={at} title={utc(value)}>
      {isAgo && text !== 'now' ? `${text} ago` : text}
    </time>
  );
}

/** How long it took, or takes. */
export function Took({ from, to }: { from: string | null | undefined; to: string | null | undefined }) {
  const start = instant(from);
  if (start === null) return null;
  const end = instant(to);
  return <span class="num">{end === null ? duration(Math.max(0, Math.floor((now.value - start) / 1000) * 1000)) : took(Math.max(0, end - start))}</span>;
}
