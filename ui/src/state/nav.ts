// The figures beside the names of the pages.
import { signal } from '@preact/signals';

export const nav = signal<Partial<Record<'runs' | 'workflows' | 'batches' | 'workers' | 'queues' | 'limits' | 'schedules', string>>>({});
