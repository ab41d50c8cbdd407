// What has no stream is asked for again from time to time, while the tab is looked at.
import { useEffect, useRef, useState } from 'preact/hooks';
import { ask, Problem } from '../api/client';
import { connected, disconnected } from '../state/connection';

export function usePolled<T>(path: string, every: number, query = ''): { data: T | null; problem: Problem | null; load: () => void } {
  const [data, setData] = useState<T | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const asked = useRef<() => void>(() => undefined);
  useEffect(() => {
    const controller = new AbortController();
    const load = () => {
      if (document.hidden) return;
      ask<T>(path, { query: new URLSearchParams(query), signal: controller.signal }).then(
        (found) => {
          setData(found);
          setProblem(null);
          connected();
        },
        (error: unknown) => {
          if (!(error instanceof Problem)) return;
          if (error.isAway) disconnected(error);
          setProblem(error);
        },
      );
    };
    asked.current = load;
    load();
    const timer = window.setInterval(load, every);
    return () => {
      controller.abort();
      window.clearInterval(timer);
    };
  }, [path, every, query]);
  return { data, problem, load: () => asked.current() };
}
