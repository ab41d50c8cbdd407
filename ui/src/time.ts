// Durations and instants as people read them. The rules of `duration` are those of holdfast.core.durations.

const UNITS: readonly [string, number][] = [['d', 86_400_000], ['h', 3_600_000], ['min', 60_000], ['s', 1000], ['ms', 1]];

/** Its largest unit and the next smaller one, cut off there: "2 d 3 h". */
export function duration(ms: number): string {
  const sign = ms < 0 ? '-' : '';
  const left = Math.abs(ms);
  for (const [place, [unit, size]] of UNITS.entries()) {
    const count = Math.floor(left / size);
    if (!count) continue;
    const next = UNITS[place + 1];
    const smaller = next && size >= 1000 ? Math.floor((left - count * size) / next[1]) : 0;
    return `${sign}${count} ${unit}${smaller && next ? ` ${smaller} ${next[0]}` : ''}`;
  }
  return left ? `${sign}${+left.toFixed(3)} ms` : '0 s';
}

/** For columns of figures: "2.31 s" below ten seconds, "12 s", "1 min 4 s". */
export function took(ms: number): string {
  if (ms < 1) return '< 1 ms';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(2)} s`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  return duration(Math.floor(ms / 1000) * 1000);
}

/** One unit only: "42 s", "3 min", "5 d". */
export function age(ms: number): string {
  for (const [unit, size] of UNITS.slice(0, 4)) if (ms >= size) return `${Math.floor(ms / size)} ${unit}`;
  return 'now';
}

/** How long until then; what is past is nothing. From a second on in whole ones, rounded up. */
export function left(until: number, now: number): string {
  const ms = until - now;
  if (ms <= 0) return '0 s';
  const unit = ms < 1000 ? 1 : 1000;
  return duration(Math.ceil(ms / unit) * unit);
}

export const instant = (text: string | null | undefined): number | null => (text ? Date.parse(text) : null);

const two = (value: number) => String(value).padStart(2, '0');

export function clock(at: number, withMs = false): string {
  const d = new Date(at);
  const base = `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
  return withMs ? `${base}.${String(d.getMilliseconds()).padStart(3, '0')}` : base;
}

const isSameDay = (a: Date, b: Date) => a.toDateString() === b.toDateString();

/** Local time of day, with the date unless it is today's. */
export function local(at: number, now: number): string {
  const d = new Date(at);
  if (isSameDay(d, new Date(now))) return clock(at);
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${clock(at)}`;
}

export const utc = (at: number): string => `${new Date(at).toISOString().replace('T', ' ').replace('Z', '')} UTC`;

export const count = (value: number): string => value.toLocaleString('en-US');
