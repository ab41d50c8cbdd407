// What the HTTP API says. `GET api/v1/openapi.json` is the whole of it; these are the parts the page reads.

export type Status = 'pending' | 'running' | 'paused' | 'completed' | 'failed' | 'cancelled';
export const STATUSES: readonly Status[] = ['running', 'pending', 'paused', 'failed', 'completed', 'cancelled'];
const OPEN: ReadonlySet<Status> = new Set<Status>(['pending', 'running', 'paused']);
export const isOpen = (run: { status: Status }): boolean => OPEN.has(run.status);

export type Verb = 'start' | 'signal' | 'publish' | 'approve' | 'cancel' | 'pause' | 'resume' | 'retry' | 'kill' | 'drop' | 'bulk' | 'trigger' | 'set' | 'reset' | 'update' | 'backfill' | 'remove';

export interface Me {
  actor: string;
  role: string;
  version: string;
  store: string;
  engine: string;
  has_app: boolean;
  features: string[];
  now: string;
  can: Verb[];
}

export interface Occupation {
  kind: string;
  name: string;
  until?: string | null;
  attempt?: number;
  of?: number | null;
  detail?: string;
}

export interface Doing {
  now: Occupation[];
  more: number;
}

export interface Run {
  id: string;
  workflow: string;
  version: string;
  status: Status;
  queue: string;
  priority: number;
  key: string;
  parent: string;
  root: string;
  attributes: Record<string, string>;
  created_at: string;
  started_at: string | null;
  updated_at: string;
  ended_at: string | null;
  available_at: string | null;
  deadline: string | null;
  /** The worker that holds it, or held it last. */
  worker: string;
  is_held: boolean;
  epoch: number;
  turns: number;
  doing: Doing;
  note: string;
  seen_at: string;
  damage: string[];
  waiting: string;
  error: string;
}

export interface RunList {
  runs: Run[];
  next: string;
  seq: string;
  /** How many runs were looked at to find these. */
  looked_at: number;
}

export interface Counts {
  counts: Record<Status, number>;
  capped: Status[];
  cap: number;
}

export type Bucket = { at: string } & Record<Status, number>;

/** How many there are of what the pages list. */
export interface Overview {
  workflows: number;
  workers: number;
  limits: number;
  schedules: number;
}

export interface Histogram {
  since: string;
  until: string;
  width_seconds: number;
  is_capped: boolean;
  cap: number;
  buckets: Bucket[];
}

export interface Failure {
  type: string;
  message: string;
  traceback: string;
}

export interface Entry {
  number: number;
  ordinal: number;
  at: string;
  kind: string;
  text: string;
  name?: string;
  key?: string;
  attempt?: number;
  of?: number | null;
  outcome?: string;
  ended_at?: string | null;
  until?: string | null;
  worker?: string;
  epoch?: number;
  run?: string;
  actor?: string;
  detail?: string;
  error?: string;
}

export interface Holder {
  worker: string;
  epoch: number;
  from: string;
  until: string | null;
  last_seen: string;
  end: 'held' | 'released' | 'crashed' | 'ended' | 'paused';
}

export interface Crash {
  worker: string;
  epoch: number;
  last_seen: string;
  cut: string[];
  taken_over_at: string;
  by: string;
  after_seconds: number;
}

export interface Story {
  run: Run;
  input: unknown;
  result: unknown;
  exposed: Record<string, unknown>;
  failure: Failure | null;
  retried_from: string;
  is_compacted: boolean;
  /** What was redacted, when, why and by whom. */
  redacted: string[];
  problems: string[];
  timeline: Entry[];
  omitted: number;
  holders: Holder[];
  crashes: Crash[];
  children: Run[];
  children_next: string;
  machine: { path: { key: string; state: string }[]; state: string | null; undoable: string[]; suspects: string[] } | null;
  seq: string;
  /** How many parts each stream of the run has. */
  streams: Record<string, number>;
  /** What its definition declares, and `graph` tells; "" for a script, or if the definition is not at the server. */
  plan: '' | 'flow' | 'machine';
}

export interface StreamPart {
  offset: number;
  step: string;
  attempt: number;
  state: 'open' | 'completed' | 'superseded';
  value: unknown;
}

export interface JournalEvent {
  seq: string;
  ordinal: number;
  index: number;
  epoch: number;
  at: string;
  type: string;
  data: Record<string, unknown>;
}

export interface Turn {
  seq: string;
  ordinal: number;
  epoch: number;
  at: string;
  events: JournalEvent[];
}

export interface LiveTurn extends Turn {
  entries: Entry[];
  run: Run;
}

export interface Attempt {
  attempt: number;
  at: string;
  ended_at: string | null;
  outcome: string;
  worker: string;
  epoch: number;
  failure: Failure | null;
  retry_at: string | null;
}

export interface StepDetail {
  key: string;
  step: string;
  run: string;
  outcome: string;
  scheduled_at: string;
  ended_at: string | null;
  ordinal: number;
  input: unknown;
  output: unknown;
  failure: Failure | null;
  idempotency_key: string;
  undo: boolean;
  undoes: string;
  retry_at: string | null;
  of: number | null;
  place: { file: string; line: number; name: string } | null;
  attempts: Attempt[];
  events: JournalEvent[];
}

export interface GraphNode {
  name: string;
  kind: string;
  position: number;
  needs: string[];
  leads_to: string[];
  state: string;
  key: string | null;
  visits: number;
}

export interface Graph {
  kind: 'flow' | 'machine';
  nodes: GraphNode[];
  path: string[];
}

export interface Batch {
  id: string;
  workflow: string;
  status: Status;
  concurrency: number;
  order: string;
  retries: string;
  created_at: string;
  ended_at: string | null;
  run: Run;
  counts: { total: number; completed: number; failed: number; cancelled: number; running: number };
}

export interface Item {
  index: number;
  status: Status;
  run: string;
  result: unknown;
  error: string;
}

export interface Schema {
  type?: string | string[];
  title?: string;
  description?: string;
  default?: unknown;
  enum?: unknown[];
  const?: unknown;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  anyOf?: Schema[];
  $ref?: string;
  $defs?: Record<string, Schema>;
  [more: string]: unknown;
}

export interface Part {
  name: string;
  kind: string;
  position: number;
  leads_to?: string[];
  needs?: string[];
  calls?: string[];
}

export interface Workflow {
  id: string;
  name: string;
  kind: 'script' | 'machine' | 'flow';
  version: string;
  definition: string;
  description: string;
  input: Schema;
  output: Schema;
  queue: string;
  timeout: string | null;
  raises: string[];
  is_remote: boolean;
  steps: Part[];
  states: Part[];
  checkpoints: { name: string; kind: string; position: number }[];
  in_flight: { version: string; count: number; is_capped: boolean; is_served: boolean }[];
}

export interface Stats {
  workflow: string;
  ended: number;
  completed: number;
  failed: number;
  cancelled: number;
  success_rate: number | null;
  p50_seconds: number | null;
  p95_seconds: number | null;
  p99_seconds: number | null;
  recent: { at: string; status: Status; seconds: number; run: string }[];
}

export interface Met {
  run: string;
  kind: string;
  detail: string;
  at: string;
}

export interface Worker {
  instance: string;
  worker: string;
  queues: string[];
  definitions: [string, string][];
  pid: number;
  host: string;
  started_at: string;
  is_live: boolean;
  active: number;
  progress: string;
  recovery: { counts: Record<string, number>; recent: Met[]; taken: Met[]; left: [string, string][] };
  seen_at: string;
  damage: string[];
  holds: Run[];
}

export interface LeaseHolder {
  worker: string;
  is_live: boolean;
  active: number;
  seen_at: string | null;
  skew_seconds: number;
  runs: string[];
}

export interface Leases {
  manager: string;
  members: { address: string; role: string; problem: string }[];
  holders: LeaseHolder[];
  compared: number;
  disagreements: { run: string; granted_to: string; held_by: string }[];
  problem: string;
}

export interface Queue {
  name: string;
  waiting: number;
  oldest: string;
  since: string | null;
  running: number;
  paused: number;
  capped: string[];
  workers: string[];
  unserved: { workflow: string; version: string; count: number }[];
  begun: number;
  parked: number;
  at_once: number | null;
  per_worker: number | null;
  rate: string | null;
  shares: Record<string, number>;
  share_at_once: number | null;
  frees_parked: boolean;
  is_paused: boolean;
  reason: string;
  is_declared: boolean;
  overrides: string[];
  next_at: string | null;
  held_back: string;
  loads: { share: string; waiting: number; begun: number }[];
  share_count: number;
  problem: string;
}

export interface Limit {
  name: string;
  rate: string;
  burst: number;
  at_once: number | null;
  held: number;
  waiting: number;
  next: string | null;
  keys: number;
  paused: boolean;
  reason: string;
  by_hand: boolean;
}

export interface BusyLine {
  key: string;
  held: number;
  waiting: number;
  next: string | null;
  oldest: string | null;
  places: { run: string; step: string }[];
}

export interface Schedule {
  name: string;
  workflow: string;
  in_words: string;
  next: string | null;
  upcoming: string[];
  last: string | null;
  last_run: string;
  last_status: Status | '';
  fired: number;
  missed: number;
  skipped: number;
  buffered: number;
  overlap: string;
  paused: boolean;
  reason: string;
  is_declared: boolean;
}
