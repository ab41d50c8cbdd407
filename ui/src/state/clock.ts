// Now, as the server's clock says it. Everything that ticks reads this one signal.
import { computed, signal } from '@preact/signals';
import { ahead } from '../api/client';

const own = signal(Date.now());

/** Changes once a second. */
export const now = computed(() => own.value + ahead.value);

/** This very moment. */
export const current = (): number => Date.now() + ahead.peek();

window.setInterval(() => {
  if (!document.hidden) own.value = Date.now();
}, 1000);
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) own.value = Date.now();
});
