// The server keeps what is dear to count for a few seconds, so an answer may be older than what the stream has said since.
import { useEffect, useState } from 'preact/hooks';

/** Milliseconds, a little more than the server keeps an answer. */
const KEPT = 6000;

/** Changes once, when an answer to this question can no longer be an older one that the server had kept. */
export function useAgain(question: string): number {
  const [times, setTimes] = useState(0);
  useEffect(() => {
    const timer = window.setTimeout(() => setTimes((old) => old + 1), KEPT);
    return () => window.clearTimeout(timer);
  }, [question]);
  return times;
}
