// A question in front of the page. The browser keeps the focus inside and Escape closes it.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Mark } from './mark';

interface Props {
  title: string;
  close: () => void;
  /** What the main button does; the dialog closes after it, unless it fails or says false. */
  act?: (() => Promise<boolean | void>) | undefined;
  verb?: string;
  isDangerous?: boolean;
  isDisabled?: boolean;
  buttons?: ComponentChildren;
  children: ComponentChildren;
}

export function Dialog({ title, close, act, verb, isDangerous, isDisabled, buttons, children }: Props) {
  const ref = useRef<HTMLDialogElement>(null);
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState('');
  useEffect(() => {
    const before = document.activeElement;
    ref.current!.showModal();
    return () => (before as HTMLElement | null)?.focus?.();
  }, []);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (!act || isBusy) return;
    setBusy(true);
    setProblem('');
    try {
      if ((await act()) !== false) close();
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <dialog ref={ref} onClose={close} onClick={(event) => event.target === ref.current && close()} aria-label={title}>
      <form onSubmit={submit}>
        <h2>{title}</h2>
        {children}
        {problem && (
          <p class="notice is-failed" role="alert">
            <Mark status="failed" />
            <span class="text">{problem}</span>
          </p>
        )}
        <div class="buttons">
          {buttons}
          <button type="button" class="btn" onClick={close}>
            {act ? 'Not now' : 'Close'}
          </button>
          {act && (
            <button type="submit" class={`btn main ${isDangerous ? 'danger' : ''}`} disabled={isBusy || isDisabled}>
              {isBusy ? 'Working…' : verb}
            </button>
          )}
        </div>
      </form>
    </dialog>
  );
}
