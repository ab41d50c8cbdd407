// The filter of the list of runs: it lives in the address, and the API takes it in the same words.
import { computed } from '@preact/signals';
import { query } from '../state/route';

export const RANGES: readonly [string, string][] = [['15m', 'last 15 min'], ['1h', 'last hour'], ['6h', 'last 6 h'], ['24h', 'last 24 h'], ['7d', 'last 7 d'], ['30d', 'last 30 d']];

const LENGTHS: Record<string, number> = { '5m': 300_000, '15m': 900_000, '1h': 3_600_000, '6h': 21_600_000, '24h': 86_400_000, '7d': 604_800_000, '30d': 2_592_000_000 };

const NAMES = ['5m', ...RANGES.map(([name]) => name)];

/** The shortest range that reaches back so far; a day if that is not known. */
export const rangeFor = (ms: number | null): string => (ms === null ? '24h' : (NAMES.find((name) => LENGTHS[name]! >= ms) ?? '30d'));

export const isShorter = (range: string, than: string): boolean => LENGTHS[range]! < (LENGTHS[than] ?? 0);

/** The next longer range, up to a day. */
export const wider = (range: string): string => NAMES[Math.min(NAMES.indexOf(range) + 1, NAMES.indexOf('24h'))]!;

export const FIELDS = ['status', 'workflow', 'version', 'queue', 'worker', 'key', 'parent', 'root', 'attribute', 'q', 'error', 'since', 'until'] as const;

/** What the API is asked for: the filter and nothing else of the address. */
export const filter = computed(() => {
  const chosen = new URLSearchParams();
  for (const field of FIELDS) for (const value of query.value.getAll(field)) if (value) chosen.append(field, value);
  return chosen;
});

/** Whether errors are searched: then nothing can be counted, for no index has their words. */
export const isSearch = computed(() => filter.value.has('error'));

/** The filter as text: two lists with the same text are the same list. */
export const filterText = computed(() => filter.value.toString());

/** The filter as the body of a bulk request has it. */
export function filterBody(): Record<string, unknown> {
  const body: Record<string, unknown> = {};
  for (const [name, value] of filter.value) if (name !== 'status' && name !== 'attribute') body[name] = value;
  const statuses = filter.value.getAll('status');
  if (statuses.length) body['status'] = statuses;
  const attributes = filter.value.getAll('attribute').map((text) => text.split(/=(.*)/s).slice(0, 2));
  if (attributes.length) body['attribute'] = Object.fromEntries(attributes) as Record<string, string>;
  return body;
}
