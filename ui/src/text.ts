// Text from outside, made safe to look at: what would move the cursor or turn the line around is shown as its code.

// C0 and C1 controls but tab and newline, the marks and overrides of writing direction, and the byte order mark.
const ACTING = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

export const plain = (text: string): string =>
  text.replace(ACTING, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** On one line, and no longer than that. */
export function short(text: string, most: number): string {
  const line = plain(text.slice(0, most * 2).replace(/\s+/g, ' ')).trim();
  return line.length <= most ? line : `${line.slice(0, most - 1)}…`;
}

/** An error where there is little room: the step and what it raised, without the words that every failed step has. */
export const brief = (error: string): string => error.replace(/^(?:run \S+ failed: )?(?:StepFailed: step (\S+) failed after \d+ attempts?: )?/, (_, step: string | undefined) => (step ? `${step}: ` : ''));

export const json = (value: unknown): string => plain(JSON.stringify(value, null, 2) ?? 'null');

export function size(characters: number): string {
  if (characters < 1000) return `${characters} characters`;
  return characters < 1_000_000 ? `${(characters / 1000).toFixed(1)} KB` : `${(characters / 1_000_000).toFixed(1)} MB`;
}
