import { useState } from 'preact/hooks';
import { Problem } from '../api/client';
import { Mark, Sign } from '../parts/mark';
import { signIn } from '../state/me';

export function Login({ problem: given }: { problem: string }) {
  const [token, setToken] = useState('');
  const [refused, setProblem] = useState('');
  const problem = refused || given;
  const [isBusy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await signIn({ token: token.trim() });
    } catch (error) {
      setProblem(error instanceof Problem && error.status === 401 ? 'This token is not known, or was revoked.' : (error as Error).message);
    } finally {
      setBusy(false);
    }
  };
  return (
    <main class="login">
      <form class="card" onSubmit={submit}>
        <h1>
          <Sign size={24} />
          Holdfast
        </h1>
        <p class="soft">Sign in with a token. An operator makes one with</p>
        <pre class="value" tabIndex={0} aria-label="command">holdfast tokens add NAME --role operate</pre>
        <label class="line">
          <span>Token</span>
          <input class="field mono" type="password" autocomplete="current-password" autofocus value={token} onInput={(event) => setToken(event.currentTarget.value)} />
        </label>
        {problem && (
          <p class="notice is-failed" role="alert">
            <Mark status="failed" />
            <span class="text">{problem}</span>
          </p>
        )}
        <button class="btn main" disabled={isBusy || !token.trim()}>
          Sign in
        </button>
        <p class="small dim"><span class="mono">holdfast dev</span> prints a link that signs you in once, for 60 seconds.</p>
      </form>
    </main>
  );
}
