// Dark or light: what the reader chose here, else what their system says.
import { effect, signal } from '@preact/signals';

type Choice = 'light' | 'dark' | '';
const KEY = 'holdfast-theme';
const system = window.matchMedia('(prefers-color-scheme: dark)');
const isSystemDark = signal(system.matches);
system.addEventListener('change', () => (isSystemDark.value = system.matches));

const choice = signal<Choice>((localStorage.getItem(KEY) as Choice | null) ?? '');

export const isDark = (): boolean => (choice.value ? choice.value === 'dark' : isSystemDark.value);

export function toggleTheme(): void {
  choice.value = isDark() ? 'light' : 'dark';
  localStorage.setItem(KEY, choice.value);
}

effect(() => {
  document.documentElement.dataset['theme'] = isDark() ? 'dark' : 'light';
});
