// Short news at the edge of the screen.
import { signal } from '@preact/signals';
import { Problem } from '../api/client';
import { plain } from '../text';

export interface Toast {
  number: number;
  text: string;
  status: 'completed' | 'failed';
}

export const toasts = signal<Toast[]>([]);
let count = 0;

export function toast(text: string, status: Toast['status'] = 'completed'): void {
  const number = ++count;
  toasts.value = [...toasts.value, { number, text: plain(text), status }];
  window.setTimeout(() => (toasts.value = toasts.value.filter((one) => one.number !== number)), status === 'failed' ? 12_000 : 5000);
}

export function toastError(error: unknown): void {
  if (error instanceof DOMException && error.name === 'AbortError') return;
  toast(error instanceof Problem ? error.message : String(error), 'failed');
}
